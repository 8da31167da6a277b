//! The first record of a client of TLS, made by hand: for tests that end, or pass it on, before an answer.

/// A ClientHello as a client of TLS sends it that asks for `name`.
pub(crate) fn hello(name: &str) -> Vec<u8> {
    let names = [&[0], &*counted(name.as_bytes())].concat();
    record(0x1301, &[&[0, 0], &*counted(&counted(&names))].concat())
}

/// The hello of a client of TLS 1.2 that knows one cipher suite, as old scanners send it.
pub(crate) fn hello_with(suite: u16) -> Vec<u8> {
    let mut extensions = vec![0, 13, 0, 6, 0, 4];
    extensions.extend([4, 1, 4, 3]); // rsa_pkcs1_sha256 and ecdsa_secp256r1_sha256
    extensions.extend([0, 10, 0, 4, 0, 2, 0, 23]); // secp256r1
    extensions.extend([0, 11, 0, 2, 1, 0]);
    record(suite, &extensions)
}

fn record(suite: u16, extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(counted(&suite.to_be_bytes()));
    body.extend([1, 0]);
    body.extend(counted(extensions));
    let message = [&[1, 0], &*counted(&body)].concat();
    [&[22, 3, 1], &*counted(&message)].concat()
}

/// Behind their number in two bytes.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("a hello is short");
    [&len.to_be_bytes(), bytes].concat()
}
