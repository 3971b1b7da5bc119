"""An application for tests of the proxy: it says what it has read of an upload, or refuses it unread."""
import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_expect_100(self):
        return self.path == "/early" or super().handle_expect_100()

    def do_GET(self):
        self.say(200, b"ready")

    def do_POST(self):
        if self.path == "/early":
            self.close_connection = True
            return self.say(413, b"too large")
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0:
            piece = self.rfile.read(min(left, 10_000))
            if not piece:
                return
            digest.update(piece)
            left -= len(piece)
        self.say(200, digest.hexdigest().encode())

    do_PUT = do_POST

    def say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), App).serve_forever()
