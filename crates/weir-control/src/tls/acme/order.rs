//! One certificate from one authority: account, order, challenge, key, certificate (RFC 8555 section 7.1).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use weir_config::{AcmeChallenge, LoadedCertificate};
use weir_http::WallTime;
use weir_proxy::net::clock;

use super::challenge::PlacedChallenge;
use super::issuer::{IssuanceError, Issuer, is_unknown_account, text_of};

/// How long an authority may take to validate a host, and to issue.
const AUTHORITY_TIME: Duration = Duration::from_secs(120);

/// The most proofs that an authority may want of a host; one is usual.
const PROOFS_MAX: usize = 4;

/// What is ordered.
pub(super) struct WantedCertificate<'a> {
    pub(super) host: &'a str,
    pub(super) ca: &'a str,
    /// How many attempts were refused before: each uses the next way to prove the host.
    pub(super) refused: u32,
    /// Whether there is a certificate for it, whatever its authority.
    pub(super) is_renewal: bool,
    /// The certificate that the new one replaces, if it is of the same authority.
    pub(super) replaces: Option<&'a LoadedCertificate>,
}

/// Chain and key, both PEM.
pub(super) struct ObtainedCertificate {
    pub(super) chain: String,
    pub(super) key: String,
}

/// Obtains a certificate.
///
/// # Errors
/// Why there is none.
pub(super) async fn obtain(
    issuer: &Issuer,
    wanted: &WantedCertificate<'_>,
) -> Result<ObtainedCertificate, IssuanceError> {
    let account = issuer.account(wanted.ca).await?;
    note_order(issuer, wanted).await?;
    let mut order = begin(issuer, &account, wanted).await?;
    prove(issuer, &mut order, wanted).await?;

    let unusable = |error: rcgen::Error| IssuanceError::unreached(error.to_string());
    let mut params = CertificateParams::new(vec![wanted.host.to_owned()]).map_err(unusable)?;
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate().map_err(unusable)?;
    let request = params.serialize_request(&key).map_err(unusable)?;
    let failed = |error: instant_acme::Error| issuer.failed(&error);
    order.finalize_csr(request.der()).await.map_err(failed)?;
    let chain = order.poll_certificate(&patience()).await.map_err(failed)?;
    Ok(ObtainedCertificate { chain, key: key.serialize_pem() })
}

fn patience() -> RetryPolicy {
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(AUTHORITY_TIME)
}

/// Takes note of an order, unless there have been too many.
async fn note_order(issuer: &Issuer, wanted: &WantedCertificate<'_>) -> Result<(), IssuanceError> {
    issuer.begin_order(wanted.ca, (wanted.host, wanted.is_renewal), clock::date()).await
}

/// Begins the order, with an account that the authority knows.
async fn begin(
    issuer: &Issuer,
    account: &Account,
    wanted: &WantedCertificate<'_>,
) -> Result<Order, IssuanceError> {
    let identifiers = [Identifier::Dns(wanted.host.to_owned())];
    let new = || {
        let order = NewOrder::new(&identifiers);
        match &issuer.issued.issuer.profile {
            Some(profile) => order.profile(profile),
            None => order,
        }
    };
    if let Some(before) = wanted.replaces.and_then(|before| before.chain.first())
        && let Ok(id) = CertificateIdentifier::try_from(before)
    {
        match account.new_order(&new().replaces(id)).await {
            Ok(order) => return Ok(order),
            // It does not know what is replaced, or has it replaced already, and issues all the same.
            Err(Error::Api(_) | Error::Unsupported(_)) => {}
            // It may have begun one that it does not call a replacement, or whose response was lost.
            Err(_) => note_order(issuer, wanted).await?,
        }
    }
    match account.new_order(&new()).await {
        Ok(order) => Ok(order),
        Err(error) if is_unknown_account(&error) => {
            issuer.forget_account(wanted.ca, account)?;
            let account = issuer.account(wanted.ca).await?;
            account.new_order(&new()).await.map_err(|error| issuer.failed(&error))
        }
        Err(error) => Err(issuer.failed(&error)),
    }
}

/// Proves the hosts of an order.
async fn prove(
    issuer: &Issuer,
    order: &mut Order,
    wanted: &WantedCertificate<'_>,
) -> Result<(), IssuanceError> {
    let failed = |error: instant_acme::Error| issuer.failed(&error);
    let proofs = order.state().authorizations.len();
    if proofs > PROOFS_MAX {
        return Err(IssuanceError::refused(format!("the authority wants {proofs} proofs of one host")));
    }
    let mut placed = Vec::new();
    let outcome = async {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(failed)?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                other => {
                    let what = format!("the authority says of the proof of the host: {other:?}");
                    return Err(IssuanceError::refused(what));
                }
            }
            let kind = choose(issuer, wanted, |kind| {
                authorization.challenges.iter().any(|challenge| challenge.r#type == type_of(kind))
            })?;
            let mut challenge = authorization.challenge(type_of(kind)).expect("the choice has looked for it");
            let (token, answer) = (challenge.token.clone(), challenge.key_authorization());
            let host = wanted.host.trim_start_matches("*.");
            placed.push(PlacedChallenge::place(issuer, kind, host, &token, answer.as_str()).await?);
            challenge.set_ready().await.map_err(failed)?;
        }
        order.poll_ready(&patience()).await.map_err(failed)
    }
    .await;
    for challenge in placed {
        challenge.remove().await;
    }
    match outcome? {
        OrderStatus::Ready => Ok(()),
        _ => Err(IssuanceError::refused(why_invalid(order).await)),
    }
}

/// The way to prove a host: another one after each attempt that has failed.
fn choose(
    issuer: &Issuer,
    wanted: &WantedCertificate<'_>,
    is_offered: impl Fn(AcmeChallenge) -> bool,
) -> Result<AcmeChallenge, IssuanceError> {
    let challenges = &issuer.issued.issuer.challenges;
    let is_wildcard = wanted.host.starts_with("*.");
    let usable: Vec<AcmeChallenge> = challenges
        .iter()
        .copied()
        .filter(|kind| is_offered(*kind) && (!is_wildcard || *kind == AcmeChallenge::Dns01))
        .collect();
    let turn = wanted.refused as usize % usable.len().max(1);
    usable.get(turn).copied().ok_or_else(|| {
        let names: Vec<&str> = challenges.iter().map(|kind| kind.name()).collect();
        IssuanceError::refused(format!("the authority offers none of the challenges {}", names.join(", ")))
    })
}

fn type_of(kind: AcmeChallenge) -> ChallengeType {
    match kind {
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    }
}

/// What the authority has met when it looked for the proof.
async fn why_invalid(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            break;
        }
        for challenge in &authorization.challenges {
            if let Some(problem) = &challenge.error {
                return format!("{}: {}", challenge_name(&challenge.r#type), text_of(problem));
            }
        }
    }
    "the authority could not validate the host, and does not say why".to_owned()
}

fn challenge_name(kind: &ChallengeType) -> &'static str {
    match kind {
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Http01 => "http-01",
        ChallengeType::Dns01 => "dns-01",
        _ => "the challenge",
    }
}

/// The window in which the authority suggests to renew a certificate (RFC 9773), and after what time to ask again; `None` where it has no
/// suggestion.
pub(super) async fn suggested_window(
    issuer: &Issuer,
    ca: &str,
    certificate: &LoadedCertificate,
) -> Option<([WallTime; 2], Duration)> {
    let id = CertificateIdentifier::try_from(certificate.chain.first()?).ok()?;
    let account = issuer.account(ca).await.ok()?;
    let (info, pause) = account.renewal_info(&id).await.ok()?;
    let time = WallTime::from_signed_seconds;
    let window = &info.suggested_window;
    Some(([time(window.start.unix_timestamp()), time(window.end.unix_timestamp())], pause))
}
