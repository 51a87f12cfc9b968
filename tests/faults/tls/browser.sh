#!/usr/bin/env bash
# Must-show 3 of issue 15: a browser over TLS to the client and the admin listener of a node.
#
#   tests/faults/tls/browser.sh /full/path/to/hopcache
#
# Starts a node on the sample graph with a certificate of an authority made here, and loads pages of both listeners in
# a headless Chromium: first with a profile that does not know the authority (ERR_CERT_AUTHORITY_INVALID), then with one
# that trusts it. Prints what the browser shows. Exits 1 when a page loads that should not, or the other way round.
#
# Not in the gate: it needs openssl, Chromium (Debian: chromium) and certutil (Debian: libnss3-tools). Everything that
# it makes is in a directory of its own, which it removes.
set -euo pipefail

hopcache=${1:?usage: browser.sh /full/path/to/hopcache}
dir=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill "$node" 2>/dev/null; rm -rf "$dir"' EXIT

# An authority, and its certificate for this machine.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=authority of a test" \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
  -keyout "$dir/ca.key.pem" -out "$dir/ca.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
  -keyout "$dir/key.pem" -out "$dir/request.pem" 2>/dev/null
openssl x509 -req -in "$dir/request.pem" -CA "$dir/ca.pem" -CAkey "$dir/ca.key.pem" -CAcreateserial -days 2 \
  -extfile <(printf '%s\n' "subjectAltName=DNS:localhost,IP:127.0.0.1" "extendedKeyUsage=serverAuth") \
  -out "$dir/cert.pem" 2>/dev/null

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
client=$(free_port) admin=$(free_port) peer=$(free_port)
cat >"$dir/node.toml" <<TOML
[node]
name = "node-a"
client_addr = "127.0.0.1:$client"
admin_addr = "127.0.0.1:$admin"
peer_addr = "127.0.0.1:$peer"
bolt_addr = ""
client_tls = { cert_file = "$dir/cert.pem", key_file = "$dir/key.pem" }
admin_tls = { cert_file = "$dir/cert.pem", key_file = "$dir/key.pem" }
[origin]
uri = "embedded:"
[store]
uri = "memory:"
TOML
"$hopcache" serve --config "$dir/node.toml" >"$dir/node.log" 2>&1 &
node=$!
for _ in $(seq 150); do
  curl --silent --output /dev/null --fail --cacert "$dir/ca.pem" "https://localhost:$admin/readyz" && break
  sleep 0.2
done
curl --silent --output /dev/null --fail --cacert "$dir/ca.pem" "https://localhost:$admin/readyz" || {
  echo "the node is not ready:"
  cat "$dir/node.log"
  exit 1
}

# What Chromium shows for the URL $2 to a user whose home is $1, as one line of text: the document, or the error of a
# page that it did not load.
shown() {
  HOME="$1" timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --enable-logging=stderr \
    --user-data-dir="$1/profile" --dump-dom "$2" 2>"$dir/chromium.log" | sed 's/<[^>]*>/ /g' | tr '\n' ' ' | tr -s ' '
  grep -o 'Page load failed: .*' "$dir/chromium.log" || true
}

# A home whose certificate store is empty, and one that trusts the authority for servers.
for home in without with; do
  mkdir -p "$dir/$home/.pki/nssdb"
  certutil -d "sql:$dir/$home/.pki/nssdb" -N --empty-password
done
certutil -d "sql:$dir/with/.pki/nssdb" -A -t "C,," -n authority -i "$dir/ca.pem"

chromium --version 2>/dev/null
"$hopcache" --version
failed=0
# Listener, URL, and a text that its page has.
while read -r listener url text; do
  for home in without with; do
    page=$(shown "$dir/$home" "$url" || true)
    case "$home" in
      without) expected="Page load failed: net::ERR_CERT_AUTHORITY_INVALID" ;;
      with) expected=$text ;;
    esac
    grep -qF -- "$expected" <<<"$page" && outcome="as expected" || { outcome="NOT AS EXPECTED"; failed=1; }
    printf '%-6s /%-7s %-7s the authority: %s: %.140s\n' "$listener" "${url##*/}" "$home" "$outcome" "${page# }"
  done
done <<PAGES
client https://localhost:$client/ query/v2
admin https://localhost:$admin/livez "status":"live"
admin https://localhost:$admin/readyz "status":"ready"
admin https://localhost:$admin/metrics hopcache_tls_handshakes_total
PAGES
curl --silent --cacert "$dir/ca.pem" "https://localhost:$admin/metrics" | grep '^hopcache_tls_handshakes_total{.*[1-9]'
exit "$failed"
