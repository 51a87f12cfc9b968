#!/usr/bin/env bash
# Neo4j's JavaScript driver in a page: it speaks Bolt inside a WebSocket.
#
#   tests/drivers/browser/browser.sh /full/path/to/hopcache
#
# Starts a node on the sample graph, and loads page.html in a headless Chromium. The page asks the same query twice over
# `bolt://` and over `neo4j://`, and reads in a transaction. Prints what the page reports; exits 1 unless that ends with "done".
#
# Not in the gate: it needs Chromium (Debian: chromium) and npm. The gate has a WebSocket client of its own
# (websocket.rs). Everything that it makes is in a directory of its own, which it removes.
set -euo pipefail

hopcache=${1:?usage: browser.sh /full/path/to/hopcache}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill "$node" 2>/dev/null; rm -rf "$dir"' EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
admin=$(free_port) bolt=$(free_port)
cat >"$dir/node.toml" <<TOML
[node]
name = "node-a"
client_addr = "127.0.0.1:$(free_port)"
peer_addr = "127.0.0.1:$(free_port)"
admin_addr = "127.0.0.1:$admin"
bolt_addr = "127.0.0.1:$bolt"
[origin]
uri = "embedded:"
[store]
uri = "memory:"
TOML
"$hopcache" serve --config "$dir/node.toml" >"$dir/node.log" 2>&1 &
node=$!
for _ in $(seq 150); do
  curl --silent --output /dev/null --fail "http://127.0.0.1:$admin/readyz" && break
  sleep 0.2
done

npm install --silent --no-audit --no-fund --prefix "$dir" neo4j-driver@6.3.0
cp "$dir/node_modules/neo4j-driver/lib/browser/neo4j-web.min.js" "$dir/"
sed "s/BOLT_ADDR/127.0.0.1:$bolt/" "$here/page.html" >"$dir/page.html"
chromium --version 2>/dev/null
# Serves the page, and prints what it reports until it is done.
cat >"$dir/serve.py" <<'PYTHON'
import functools, http.server, sys

class Page(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        print(text, flush=True)
        if text == "done" or text.startswith("failed"):
            sys.exit(text != "done")

    def log_message(self, *_):
        pass

class Server(http.server.HTTPServer):
    def handle_error(self, *_):
        raise

server = Server(("127.0.0.1", int(sys.argv[2])), functools.partial(Page, directory=sys.argv[1]))
server.serve_forever()
PYTHON
web=$(free_port)
timeout 60 python3 "$dir/serve.py" "$dir" "$web" &
served=$!
HOME="$dir" timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
  --disable-background-networking --disable-component-update --disable-sync --remote-debugging-port=0 \
  --user-data-dir="$dir/profile" "http://127.0.0.1:$web/page.html" 2>"$dir/chromium.log" &
browser=$!
code=0
wait "$served" || code=$?
kill "$browser" 2>/dev/null || true
wait "$browser" 2>/dev/null || true
exit "$code"
