"""Bytes both ways on one plain socket as fast as the link lets them: what TCP alone takes of this host.

usage: plain_traffic.py SECONDS PORT [HOST]     with HOST the end that asks for the connection
Prints the processor time of this process for each second, in shares of a core.
"""
import resource
import socket
import sys
import threading
import time

NBYTES = 1 << 20


def connect(host, port):
    for _ in range(100):
        try:
            return socket.create_connection((host, port))
        except OSError:
            time.sleep(0.05)
    sys.exit(f'plain_traffic.py: no answer from {host}')


def send(link, seconds):
    data, end = bytes(NBYTES), time.monotonic() + seconds
    while time.monotonic() < end:
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    seconds, port = float(sys.argv[1]), int(sys.argv[2])
    link = connect(sys.argv[3], port) if len(sys.argv) > 3 else socket.create_server(('', port)).accept()[0]
    start, before, room = time.monotonic(), cpu_seconds(), bytearray(NBYTES)
    sender = threading.Thread(target=send, args=[link, seconds])
    sender.start()
    while link.recv_into(room, NBYTES, socket.MSG_WAITALL):
        pass
    sender.join()
    print((cpu_seconds() - before) / (time.monotonic() - start))


if __name__ == '__main__':
    main()
