# Varnish on its built-in VCL, as the suite itself sets it up.
vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "{origin}";
}
