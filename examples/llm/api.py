#!/usr/bin/env python3
"""A small API like the API of a language model. It answers with words, all at once or one by one as events. The end of an answer
contains the number of used tokens. A token is a word here.

    python3 examples/llm/api.py [port]
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = "the gateway reads what the answer says while it passes and charges it to the client in the end".split()


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        prompt = sum(len(message["content"].split()) for message in asked.get("messages", []))
        count = int(asked.get("max_tokens", 10))
        words = [WORDS[nth % len(WORDS)] for nth in range(count)]
        model = asked.get("model", "small-1")
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        if asked.get("stream"):
            self.stream(words, usage, model)
        else:
            message = {"role": "assistant", "content": " ".join(words)}
            self.whole({"object": "chat.completion", "model": model, "choices": [{"index": 0, "message": message}], "usage": usage})

    def whole(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, words, usage, model):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for word in words:
                self.event({"choices": [{"index": 0, "delta": {"content": word + " "}}], "usage": None, "model": model})
                time.sleep(0.02)
            self.event({"choices": [], "usage": usage, "model": model})
            self.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:
            pass  # Nobody reads on.

    def event(self, data):
        data["object"] = "chat.completion.chunk"
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Api)
    print("the API listens on port", server.server_address[1], file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
