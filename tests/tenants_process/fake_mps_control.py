"""Behaves as `nvidia-cuda-mps-control` does (driver 580, seen on an H200); FAKE_MPS makes it fail.

With `-f` the daemon: a socket `control` in CUDA_MPS_PIPE_DIRECTORY, messages on stderr, a server process of
its own group once there is a client, `quit` answered when the last one is gone. Without arguments it sends
the commands on stdin to the daemon. A client is here whatever has that directory in its environment.
FAKE_MPS: `refuse` (ends at once), `mute` (never answers).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
PATH_BYTES = 107


def own(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"mps_control" in words or b"mps-control" in words or b"mps-server" in words


def clients() -> list[int]:
    wanted = b"CUDA_MPS_PIPE_DIRECTORY=" + os.fsencode(FOLDER)
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                variables = Path(entry.path, "environ").read_bytes().split(b"\0")
                if wanted in variables and not own(int(entry.name)):
                    found.append(int(entry.name))
    return found


def say(text: str) -> None:
    sys.stderr.write(f"[2026-01-01 00:00:00.000 Control {os.getpid()}] {text}\n")
    sys.stderr.flush()


def talk() -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        try:
            daemon.connect(os.fspath(FOLDER / "control"))
        except OSError:
            sys.stdout.write("Cannot find MPS control daemon process\n")
            return 1
        daemon.sendall(sys.stdin.read().encode())
        daemon.shutdown(socket.SHUT_WR)
        while data := daemon.recv(4096):
            sys.stdout.write(data.decode())
    return 0


def serve() -> int:
    if len(os.fsencode(FOLDER / "control_privileged")) > PATH_BYTES:
        return 1  # without a word
    if not os.access(FOLDER, os.W_OK):
        sys.stdout.write(f"Cannot access CUDA_MPS_PIPE_DIRECTORY={FOLDER}\n")
        return 1
    if os.environ.get("FAKE_MPS") == "refuse":
        say("Failed to start : the reason")
        return 1
    pid_file = FOLDER / "nvidia-cuda-mps-control.pid"
    if pid_file.exists():
        sys.stdout.write("An instance of this daemon is already running\n")
        return 1
    (FOLDER / "control").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.fspath(FOLDER / "control"))
        listener.listen()
        pid_file.write_text(f"{os.getpid()}\n")
        say(f"Starting control daemon using socket {FOLDER / 'control'}")
        say(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}")
        accept(listener)
    pid_file.unlink()
    return 0


def accept(listener: socket.socket) -> None:
    server: subprocess.Popen[bytes] | None = None
    while True:
        connection, _ = listener.accept()
        with connection:
            command = connection.recv(4096).decode().split()
            say(f"Cmd:{' '.join(command)}")
            if os.environ.get("FAKE_MPS") == "mute":
                time.sleep(60)
            found = clients()
            if found and server is None:
                server = subprocess.Popen(["nvidia-cuda-mps-server", "600"], executable=shutil.which("sleep"))
            if command[:1] == ["get_default_active_thread_percentage"]:
                connection.sendall(b"100.0\n")
            elif command[:1] == ["get_server_list"] and server is not None:
                connection.sendall(f"{server.pid}\n".encode())
            elif command[:1] == ["get_client_list"]:
                connection.sendall("".join(f"{pid}\n" for pid in found).encode())
            elif command[:1] == ["quit"]:
                while clients():
                    time.sleep(0.02)
                say("Exit")
                if server is not None:
                    server.kill()
                    server.wait()
                return


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["-f"] else talk())
