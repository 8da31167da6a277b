#!/bin/bash
# The client cases of grpc-go's interop suite, directly and through Weir: interop.sh WEIR FOLDER-OF-CLIENT-AND-SERVER
weir=$1 suite=$2
cd "$(dirname "$0")"
"$suite/server" --port 8804 --use_tls=false > /dev/null 2>&1 & server=$!
"$weir" serve grpc.toml > /dev/null 2>&1 & proxy=$!
sleep 1.5
for case in empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server \
    cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata \
    unimplemented_method unimplemented_service rpc_soak channel_soak; do
    for port in 8804 8801; do
        timeout 60 "$suite/client" --server_host 127.0.0.1 --server_port $port --use_tls=false --test_case $case > /dev/null 2>&1
        echo "$case $port $?"
    done
done
kill $proxy $server
