module http2clients

go 1.26
