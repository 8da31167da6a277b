// java.net.http.HttpClient: java Client.java BASE CA FILE-OF-100-MB. Its WebSocket is HTTP/1.1's.
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import java.util.*;
import java.util.concurrent.*;
import javax.net.ssl.*;

public class Client {
    static String base;
    static HttpClient client;

    static String digest(byte[] data) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data)).substring(0, 16);
    }

    static HttpRequest.Builder to(String target) { return HttpRequest.newBuilder(URI.create(base + target)); }

    static void test(String name, Callable<String> run) {
        try { System.out.println(name + " " + run.call()); } catch (Throwable fault) { System.out.println(name + " failed: " + fault); }
    }

    public static void main(String[] args) throws Exception {
        base = args[0];
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(args[1])));
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        client = HttpClient.newBuilder().sslContext(tls).version(HttpClient.Version.HTTP_2).build();
        for (int n : new int[] {0, 1, 612, 16384, 100000, 1000000}) test("get-" + n, () -> {
            var answer = client.send(to("/size/" + n).build(), BodyHandlers.ofByteArray());
            return answer.statusCode() + " " + answer.version() + " " + digest(answer.body());
        });
        for (int n : new int[] {404, 204}) test("status-" + n, () -> "" + client.send(to("/status/" + n).build(), BodyHandlers.discarding()).statusCode());
        test("get-100MB", () -> digest(client.send(to("/size/100000000").build(), BodyHandlers.ofByteArray()).body()));
        var file = HttpRequest.BodyPublishers.ofFile(Path.of(args[2]));
        test("post-100MB", () -> client.send(to("/digest").POST(file).build(), BodyHandlers.ofString()).body());
        test("events", () -> {
            var lines = client.send(to("/events").build(), BodyHandlers.ofLines()).body().iterator();
            long first = 0, count = 0;
            while (lines.hasNext()) { lines.next(); count++; if (first == 0) first = System.nanoTime(); }
            return count + (System.nanoTime() - first > 700_000_000L ? " one-by-one" : " together");
        });
        test("websocket-by-http1", () -> {
            var done = new CompletableFuture<Integer>();
            var socket = client.newWebSocketBuilder().buildAsync(URI.create(base.replace("https", "wss") + "/ws"), new WebSocket.Listener() {
                int seen = 0;
                public CompletionStage<?> onBinary(WebSocket socket, ByteBuffer data, boolean last) {
                    seen += data.remaining();
                    socket.request(1);
                    if (seen == 103005) done.complete(seen);
                    return null;
                }
                public void onError(WebSocket socket, Throwable fault) { done.completeExceptionally(fault); }
            }).get(10, TimeUnit.SECONDS);
            for (int n : new int[] {5, 3000, 100000}) socket.sendBinary(ByteBuffer.allocate(n), true).get();
            int seen = done.get(10, TimeUnit.SECONDS);
            socket.sendClose(1000, "").get();
            return seen + " bytes back";
        });
        test("streams-1000", () -> {
            var all = new ArrayList<CompletableFuture<String>>();
            var results = new TreeMap<String, Integer>();
            // The client fails a request beyond the server's limit instead of waiting: 100 run at a time.
            var room = new Semaphore(100);
            for (int i = 0; i < 1000; i++) {
                room.acquire();
                all.add(client.sendAsync(to("/size/10000?wait=100ms&i=" + i).build(), BodyHandlers.ofByteArray()).handle((answer, fault) -> {
                    room.release();
                    try { return fault == null ? answer.statusCode() + " " + digest(answer.body()) : fault.toString(); } catch (Exception e) { return e.toString(); }
                }));
            }
            for (var one : all) results.merge(one.get(), 1, Integer::sum);
            return results.toString();
        });
        test("cancel", () -> {
            String id = "java-" + System.nanoTime();
            var answer = client.send(to("/slow?id=" + id).build(), BodyHandlers.ofInputStream());
            answer.body().read(new byte[20]);
            answer.body().close();
            String state = client.send(to("/state?id=" + id).build(), BodyHandlers.ofString()).body();
            return state + " then " + client.send(to("/size/1000").build(), BodyHandlers.ofByteArray()).body().length;
        });
        System.exit(0);
    }
}
