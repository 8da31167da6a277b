#!/bin/bash
# A browser without a window: browser.sh chromium|firefox BASE CA
browser=$1 base=$2 ca=$3 id=$1-$RANDOM$RANDOM profile=$(mktemp -d)
url="$base/pages/browser.html?id=$id"
case $browser in
chromium)
    # The authority is not known to the browser's store, hence the first option.
    chromium --headless=new --no-sandbox --ignore-certificate-errors --disable-gpu --user-data-dir="$profile" "$url" > /dev/null 2>&1 & child=$! ;;
firefox)
    certutil -N -d "sql:$profile" --empty-password && certutil -A -d "sql:$profile" -n ca -t C,, -i "$ca"
    HOME=$profile firefox-esr --headless --no-remote --profile "$profile" "$url" > /dev/null 2>&1 & child=$! ;;
esac
for _ in $(seq 240); do
    report=$(curl -s "http://127.0.0.1:9401/report?id=$id")
    [[ $report == *end ]] && break
    sleep 0.5
done
echo "$report" | grep -vE '^(end)?$'
kill $child; wait $child 2> /dev/null
rm -rf "$profile"
