"""An upstream of WebSockets in a process of its own: it switches whoever asks, and gives back what comes. Prints its port."""

import asyncio


async def serve(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    key = next(value for name, value in lines.items() if name.lower() == b"sec-websocket-key")
    switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    writer.write(switched + b"Sec-WebSocket-Accept: " + key + b"\r\n\r\n")
    while words := await reader.read(4096):
        writer.write(words)
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
