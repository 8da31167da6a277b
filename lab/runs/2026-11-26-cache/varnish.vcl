vcl 4.1;
backend origin { .host = "127.0.0.1"; .port = "9100"; }
