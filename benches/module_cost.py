#!/usr/bin/env python3
"""Processor time per request for cached files: nginx or Apache with Flash's module, without it, and in front of `flash serve`.

    make -C modules && cargo build --profile dist -p flash
    python3 benches/module_cost.py nginx --owner root --rounds 7

As root, with wrk. The server runs on one CPU and wrk on another, with 32 kept connections, in alternating rounds. Every second
round is in reverse order. It prints medians of the workers' time from /proc/PID/schedstat, divided by requests, and their ratios
to the first. If requests are passed on to `flash serve` over a Unix socket, its time counts too.

Over the loopback a part of the server's sending may run in wrk's system calls, and a part of wrk's receiving in the server's.
So the figure in brackets has both: what is added to the time of workers and wrk, as a ratio to the workers' time without it.
"""
import argparse
import contextlib
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"1k": 1024, "10k": 10 << 10, "100k": 100 << 10, "1m": 1 << 20}
CACHE = "open_file_cache max=10000 inactive=600s; open_file_cache_valid 60s; open_file_cache_min_uses 1;"
SETTINGS = {
    "nginx": {"base": "", "nopush": "tcp_nopush on;", "cache": CACHE, "cache+nopush": CACHE + " tcp_nopush on;"},
    "event": {"base": "", "sendfile": "EnableSendfile On"},
    "prefork": {"base": "", "sendfile": "EnableSendfile On"},
}
NGINX = """
worker_processes 1; worker_rlimit_nofile 10000; user www-data; pid {work}/pid; error_log {work}/error.log error; daemon off;
events {{ use epoll; worker_connections 1024; multi_accept on; }}
http {{
    types {{ text/html html; }}
    access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600s;
    {setting}
    {proxy}
    client_body_temp_path {work}/b; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u;
    scgi_temp_path {work}/s;
    server {{ listen 127.0.0.1:{port}; root {root}; {ask} }}
}}
"""
PASS = """location / {{
    proxy_pass http://flash; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
    proxy_max_temp_file_size 0; proxy_buffer_size 16k; proxy_buffers 16 128k; proxy_busy_buffers_size 256k;
}}"""
APACHE = """
LoadModule mpm_{mpm}_module /usr/lib/apache2/modules/mod_mpm_{mpm}.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
ServerRoot {work}
DefaultRuntimeDir {work}
PidFile {work}/pid
ErrorLog {work}/error.log
ServerName localhost
Listen 127.0.0.1:{port}
TypesConfig /dev/null
AddType text/html html
User www-data
Group www-data
<IfModule mpm_prefork_module>
    ServerLimit 40
    StartServers 40
    MaxSpareServers 40
    MaxRequestWorkers 40
</IfModule>
<IfModule mpm_event_module>
    ServerLimit 1
    StartServers 1
    ThreadsPerChild 64
    MaxRequestWorkers 64
</IfModule>
MaxKeepAliveRequests 0
KeepAliveTimeout 600
{setting}
{proxy}
DocumentRoot {root}
<Directory />
    AllowOverride None
    Options FollowSymLinks
    Require all granted
</Directory>
{ask}
"""
PROXIES = {
    "nginx": ("upstream flash {{ server unix:{socket}; keepalive 64; }}", PASS),
    "apache": (
        "LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so\n"
        "LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so",
        "ProxyPass / unix:{socket}|http://localhost/",
    ),
}


@contextlib.contextmanager
def running(command, ready):
    """A process, once `ready` returns something, which is given with it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            time.sleep(0.05)
            found = ready(process.pid)
            if found:
                break
        else:
            raise SystemExit(f"{command} does not start")
        yield found
    finally:
        process.terminate()
        process.wait()


def children(pid, count):
    """The numbers of a process's children, if there are so many."""
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return found if len(found) >= count else None


def server(kind, setting, work, root, port, module=None, proxied=None):
    """The command of a server, and how many workers it starts. The sockets are of `flash helper` and `flash serve`."""
    work.mkdir()
    shutil.chown(work, "www-data")
    proxy, ask = PROXIES["nginx" if kind == "nginx" else "apache"] if proxied else ("", "")
    place = {"work": work, "root": root, "port": port, "setting": setting, "proxy": proxy.format(socket=proxied)}
    ask = ask.format(socket=proxied)
    conf = work / "conf"
    if kind == "nginx":
        load = f"load_module {HERE}/modules/nginx/ngx_http_flash_module.so;" if module else ""
        conf.write_text(load + NGINX.format(ask=f"flash_static unix:{module};" if module else ask, **place))
        return ["nginx", "-c", conf], 1
    load = f"LoadModule flash_module {HERE}/modules/apache/mod_flash.so" if module else ""
    conf.write_text(load + APACHE.format(ask=f"FlashHelper unix:{module}" if module else ask, mpm=kind, **place))
    return ["apache2", "-f", conf, "-DFOREGROUND"], 40 if kind == "prefork" else 1


def spent_us(pids):
    """The processor time of all threads of these processes."""
    tasks = [task for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def load(port, path):
    """Asks for a second, and returns how many responses came, and wrk's processor time in microseconds."""
    command = ["taskset", "-c", "1", "wrk", "-t1", "-c32", "-d1s", f"http://127.0.0.1:{port}/{path}.html"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Non-2xx" not in said and "Socket errors" not in said, said
    client = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(re.search(r"(\d+) requests in", said)[1]), client * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=SETTINGS)
    parser.add_argument("--owner", default="www-data", help="of the files: the worker's user, or another one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--setting", action="append", help="only this one: base, cache and so on")
    parser.add_argument("--flash", default=HERE / "target/dist/flash")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        work = pathlib.Path(folder)
        work.chmod(0o755)
        root, socket, behind = work / "site", work / "helper.sock", work / "serve.sock"
        root.mkdir()
        for name, size in SIZES.items():
            (root / f"{name}.html").write_bytes(os.urandom(size))
            shutil.chown(root / f"{name}.html", arguments.owner)
        helper = [arguments.flash, "helper", root, "--listen", f"unix:{socket}", "--allow-user", "www-data"]
        stack.enter_context(running(helper, lambda _: socket.exists()))
        place = f"unix:{behind},group=www-data,mode=660"
        serve = ["taskset", "-c", "0", arguments.flash, "serve", root, "--listen", place, "--trusted-proxies", "unix"]
        flash = stack.enter_context(running(serve, lambda pid: behind.exists() and [str(pid)]))
        for name, setting in SETTINGS[arguments.server].items():
            if arguments.setting and name not in arguments.setting:
                continue
            with contextlib.ExitStack() as servers:
                peers = []
                for port, asks in ((18101, {}), (18102, {"module": socket}), (18103, {"proxied": behind})):
                    place = work / f"{name}-{port}"
                    command, workers = server(arguments.server, setting, place, root, port, **asks)
                    ready = lambda pid, workers=workers: children(pid, workers)
                    pids = servers.enter_context(running(["taskset", "-c", "0", *command], ready))
                    peers.append((port, pids + flash if "proxied" in asks else pids))
                time.sleep(0.5)
                for path in SIZES:
                    [load(port, path) for port, _ in peers]
                    rounds = [[] for _ in peers]
                    for number in range(arguments.rounds):
                        order = list(zip(peers, rounds))
                        for (port, pids), costs in order[::-1] if number % 2 else order:
                            before = spent_us(pids)
                            count, client = load(port, path)
                            server_us = spent_us(pids) - before
                            costs.append((server_us / count, (server_us + client) / count))
                    (without, both), *others = ([statistics.median(of) for of in zip(*costs)] for costs in rounds)
                    line = f"{arguments.server:8} {arguments.owner:9} {name:13} {path:5} without {without:7.2f} us"
                    for what, (cost, cost_of_both) in zip(("with", "proxied"), others):
                        of_both = 1 + (cost_of_both - both) / without
                        line += f"  {what} {cost:7.2f} us {cost / without:.3f} ({of_both:.3f})"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
