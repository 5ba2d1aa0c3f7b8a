"""A server with a health path, for tests: `fake_server.py PORT BUSY`, where BUSY answers say 503 or `active`.

With port 0 it is like a built-in server: it chooses a port, prints the ready line, and says 200 with `active`
at 2 for BUSY times, then 0. With a port it says 503 for BUSY times, then 200.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    left = int(sys.argv[2])

    def do_GET(self) -> None:
        busy = Handler.left > 0 and self.path == "/health"
        Handler.left -= busy
        body = json.dumps({"status": "ok", "active": 2 if busy else 0}).encode()
        status = 404 if self.path != "/health" else 503 if busy and sys.argv[1] != "0" else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    sys.stderr.write("a log line that is not ended ")
    sys.stderr.flush()
    sys.stdout.write(json.dumps({"ready": True, "kind": "speech", "url": url}) + "\n")
    sys.stdout.flush()
    server.serve_forever()
