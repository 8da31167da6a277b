#!/bin/bash
# gRPC interop with retries, and with a reload every half second: grpc.sh WEIR FOLDER-OF-CLIENT-AND-SERVER UNAVAILABLE FOLDER-WITH-CERTIFICATES
# PYTHON: a Python with grpcio. UNAVAILABLE is the built program of this folder.
weir=$1 suite=$2 unavailable=$3
export RUN=$4
cd "$(dirname "$0")"
python=${PYTHON:-python3}
for port in 9604 9605; do "$suite/server" --port $port --use_tls=false > /dev/null 2>&1 & servers+=($!); done
"$unavailable" 9606 & servers+=($!)
cp weir.toml "$RUN/grpc.toml"
"$weir" serve "$RUN/grpc.toml" > "$RUN/grpc.log" 2>&1 & proxy=$!
"$weir" check "$RUN/grpc.toml" > /dev/null || exit 1
trap 'kill $proxy "${servers[@]}"' EXIT
sleep 1.5
cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server cancel_after_begin cancel_after_first_response
    status_code_and_message special_status_message custom_metadata unimplemented_method unimplemented_service rpc_soak channel_soak"
interop() { # PORT [OPTION ...]: how many cases pass
    local passed=0 failed=()
    for case in $cases; do
        # Three calls in a row: one of them meets the third server first.
        for _ in 1 2 3; do
            if timeout 60 "$suite/client" --server_host 127.0.0.1 --server_port "$@" --test_case $case --soak_overall_timeout_seconds 40 --soak_per_iteration_max_acceptable_latency_ms 10000 > "$RUN/grpc-case.txt" 2>&1
            then ((passed++)); else failed+=("$case: $(tail -1 "$RUN/grpc-case.txt" | cut -c1-200)"); fi
        done
    done
    echo "$passed of 48 passed ${failed[*]}"
}
echo "grpc-go directly: $(interop 9604 --use_tls=false)"
echo "grpc-go, plain: $(interop 9601 --use_tls=false)"
echo "grpc-go, TLS: $(interop 9602 --use_tls=true --custom_credentials_type="" --use_test_ca=true --ca_file="$RUN/ca.pem" --server_host_override=localhost)"
echo "grpcio directly:"; "$python" grpcio_cases.py 127.0.0.1:9604 - 3
echo "grpcio, plain:"; "$python" grpcio_cases.py 127.0.0.1:9601 - 3
echo "grpcio, TLS:"; "$python" grpcio_cases.py localhost:9602 "$RUN/ca.pem" 3
count() { curl -s http://127.0.0.1:9690/metrics | grep -E "$1" | grep -v ' 0$'; }
echo "calls that the server that is unavailable had: $(curl -s http://127.0.0.1:9606/calls)"
count '^weir_upstream_(retries|grpc_calls)'
echo "with a reload every half second:"
(i=0; while kill -0 $proxy 2> /dev/null; do
    i=$((i + 1))
    sed "s/^protocol = .*/protocol = \"h2c\"\ntimeouts.connect = \"$((3 + i % 5))s\"/" weir.toml > "$RUN/grpc.toml"
    kill -HUP $proxy 2> /dev/null; sleep 0.5
done) & reloads=$!
"$suite/client" --server_host 127.0.0.1 --server_port 9601 --use_tls=false --test_case rpc_soak --soak_iterations 100000 --soak_num_threads 8 --soak_request_size 1000 \
    --soak_response_size 1000 --soak_overall_timeout_seconds 120 > "$RUN/soak1.txt" 2>&1 & load=($!)
"$suite/client" --server_host 127.0.0.1 --server_port 9601 --use_tls=false --test_case channel_soak --soak_iterations 8000 --soak_num_threads 4 --soak_request_size 10000 \
    --soak_response_size 10000 --soak_overall_timeout_seconds 120 > "$RUN/soak2.txt" 2>&1 & load+=($!)
"$python" grpcio_cases.py localhost:9602 "$RUN/ca.pem" 60 > "$RUN/soak3.txt" 2>&1 & load+=($!)
echo "grpc-go: $(interop 9601 --use_tls=false)"
wait "${load[@]}"
for soak in soak1 soak2; do grep -o 'soak test successes.*' "$RUN/$soak.txt" | tail -1; done; grep -v '^\s' "$RUN/soak3.txt" | sed 's/^/grpcio: /'
kill $reloads
echo "reloads: $(grep -c 'was reloaded' "$RUN/grpc.log")"
count '^weir_(upstream_retries_total|upstream_grpc_calls|listener_failures)'
