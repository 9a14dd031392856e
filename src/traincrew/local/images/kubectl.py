"""A small kubectl for the pods of the embedded cluster.

It has what the operator's scripts need: ``exec`` over a websocket and ``get`` with an exact output
format. It is one file that uses the standard library alone, because it is copied into pods and
started once per remote host of an MPI job: it must start in milliseconds and need nothing from the
image. On a real cluster the helper image has the real kubectl at the same path.
"""
# Over 400 lines: it is one file because it is copied into pods.

from __future__ import annotations

import json
import os
import select
import socket
import sys
from binascii import a2b_base64, b2a_base64

# Importing `typing` would take longer than everything else; type checkers recognize this name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

USAGE = """\
usage: kubectl exec [-i] [-t] POD [-c CONTAINER] [-n NAMESPACE] -- COMMAND [ARGUMENT...]
       kubectl get KIND [NAME] [-l SELECTOR] [-n NAMESPACE] -o json|name|jsonpath=TEMPLATE

This is the small kubectl of traincrew's embedded cluster, for use inside pods."""

# kind -> (API path, plural, namespaced); the short names are the real kubectl's. Other kinds, such
# as custom resources, are discovered from the API server.
KINDS = {
    "configmap": ("/api/v1", "configmaps", True),
    "endpoints": ("/api/v1", "endpoints", True),
    "event": ("/api/v1", "events", True),
    "namespace": ("/api/v1", "namespaces", False),
    "node": ("/api/v1", "nodes", False),
    "pod": ("/api/v1", "pods", True),
    "secret": ("/api/v1", "secrets", True),
    "service": ("/api/v1", "services", True),
    "serviceaccount": ("/api/v1", "serviceaccounts", True),
    "deployment": ("/apis/apps/v1", "deployments", True),
    "statefulset": ("/apis/apps/v1", "statefulsets", True),
    "job": ("/apis/batch/v1", "jobs", True),
}
SHORT_NAMES = {
    "cm": "configmap",
    "ep": "endpoints",
    "ev": "event",
    "ns": "namespace",
    "no": "node",
    "po": "pod",
    "svc": "service",
    "sa": "serviceaccount",
    "deploy": "deployment",
    "sts": "statefulset",
}

# Of the service account of a pod, as on any cluster.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
CHUNK = 1 << 16


class KubectlError(Exception):
    """Ends the program with a message and exit code 1."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


# -- command line ------------------------------------------------------------------------------


COMMON = {
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
}


def parse(
    words: Sequence[str], values: Mapping[str, str], switches: Mapping[str, str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """Split `words` into options, positional arguments and the words after ``--``.

    `values` maps each spelling of an option with a value to its name, `switches` of one without.
    """
    options: dict[str, str] = {}
    positional: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return options, positional, words
        if not word.startswith("-"):
            positional.append(word)
        elif name in values:
            if not equals and not words:
                raise KubectlError(f"error: {name} needs a value")
            options[values[name]] = value if equals else words.pop(0)
        elif word in switches:
            options[switches[word]] = "true"
        elif not word.startswith("--") and all("-" + letter in switches for letter in word[1:]):
            options.update((switches["-" + letter], "true") for letter in word[1:])
        elif not word.startswith("--") and word[:2] in values:
            options[values[word[:2]]] = word[2:].removeprefix("=")
        else:
            raise KubectlError(f"error: unknown option {word}\n\n{USAGE}")
    return options, positional, []


def main(words: list[str]) -> int:
    """Run one command; return the exit code."""
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE + "\n")
        return 0 if words else 1
    # Options may precede the command, too.
    before: list[str] = []
    while words and words[0] in COMMON:
        before += words[:2]
        words = words[2:]
    verb, rest = (words[0], before + words[1:]) if words else ("", before)
    if verb == "exec":
        values = {**COMMON, "-c": "container", "--container": "container"}
        switches = {"-i": "stdin", "--stdin": "stdin", "-t": "tty", "--tty": "tty"}
        options, positional, command = parse(rest, values, switches)
        if len(positional) != 1 or not command:
            raise KubectlError(f"error: exec needs a pod, then -- and a command\n\n{USAGE}")
        return execute(Api(options), positional[0], command, options)
    if verb == "get":
        values = {**COMMON, "-o": "output", "--output": "output"}
        values.update({"-l": "selector", "--selector": "selector"})
        options, positional, _ = parse(rest, values, {"--ignore-not-found": "optional"})
        return get(Api(options), positional, options)
    raise KubectlError(f"error: {verb or 'nothing'}: not a command of this kubectl\n\n{USAGE}")


# -- the API -----------------------------------------------------------------------------------


class Api:
    """A client of one API server: a bearer token, over TLS with the cluster's own CA."""

    def __init__(self, options: Mapping[str, str]) -> None:
        path, config = configuration(options)
        try:
            context = named(config["contexts"], options.get("context") or config["current-context"])
            cluster = named(config["clusters"], context["context"]["cluster"])["cluster"]
            server = cluster["server"]
            name = context["context"].get("user")
            user = named(config["users"], name)["user"] if name is not None else {}
        except (KeyError, TypeError) as error:
            raise KubectlError(f"error: the kubeconfig {path} has no usable {error}") from None
        scheme, _, rest = server.partition("://")
        address, slash, path = rest.partition("/")
        host, _, port = address.rpartition(":")
        if scheme not in ("http", "https") or not port.isdigit():
            raise KubectlError(f"error: {server}: this kubectl speaks to https://HOST:PORT only")
        self.address = host.strip("[]"), int(port)
        self.host = address
        self.base = (slash + path).rstrip("/")
        self.authorization = ""
        token = user.get("token")
        if not token and user.get("tokenFile"):
            token = contents(user["tokenFile"])
        if token:
            self.authorization = f"Authorization: Bearer {token}\r\n"
        self.authority = cluster.get("certificate-authority-data", "")
        self.tls = scheme == "https"
        self.namespace = (
            options.get("namespace") or context["context"].get("namespace") or "default"
        )

    def connect(self, head: str) -> socket.socket:
        """Send a request without a body; return the socket."""
        try:
            connection = socket.create_connection(self.address, timeout=30)
        except OSError as error:
            raise KubectlError(
                f"The connection to the server {self.host} was refused - is the cluster still up? "
                f"({error.strerror or error})"
            ) from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            connection = self.secure(connection)
        connection.sendall(head.encode())
        return connection

    def secure(self, connection: socket.socket) -> socket.socket:
        """Start TLS; only the server of the kubeconfig is trusted."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            # Without an authority no server is trusted.
            context.load_verify_locations(cadata=a2b_base64(self.authority).decode())
            return context.wrap_socket(connection, server_hostname=self.address[0])
        except (OSError, ValueError) as error:
            connection.close()
            raise KubectlError(
                f"Unable to connect to the server {self.host}: {error} - another program may have "
                "its port"
            ) from None

    def get(self, path: str) -> dict[str, Any]:
        """Fetch a JSON document."""
        # HTTP/1.0: the response ends with the connection and is never chunked.
        head = (
            f"GET {self.base}{path} HTTP/1.0\r\nHost: {self.host}\r\n"
            f"{self.authorization}Accept: application/json\r\n\r\n"
        )
        with self.connect(head) as connection:
            parts = []
            try:
                while part := connection.recv(CHUNK):
                    parts.append(part)
            except OSError as error:
                raise KubectlError(
                    f"error: the server {self.host} does not answer: {error}"
                ) from None
        status, body = split_answer(b"".join(parts))
        try:
            document: dict[str, Any] = json.loads(body)
        except ValueError:
            raise KubectlError(f"error: the server answered {status} and no JSON") from None
        if status != 200:
            raise refusal(document, status)
        return document


def configuration(options: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the kubeconfig and its path; without one, that of the pod's service account."""
    given = options.get("kubeconfig") or os.environ.get("KUBECONFIG")
    # `pathlib` would take longer to import than reading the file.
    path = os.path.expanduser((given or "~/.kube/config").split(os.pathsep)[0])  # noqa: PTH111
    if not given and not os.path.exists(path) and os.environ.get("KUBERNETES_SERVICE_HOST"):  # noqa: PTH110
        return f"{ACCOUNT}/token", account_configuration()
    try:
        return path, json.loads(contents(path))
    except ValueError:
        raise KubectlError(
            f"error: the kubeconfig {path} is not JSON; this kubectl reads no YAML"
        ) from None


def account_configuration() -> dict[str, Any]:
    """Return a kubeconfig of the service account of the pod that this program runs in."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT")
    authority = b2a_base64(contents(f"{ACCOUNT}/ca.crt").encode()).decode()
    cluster = {"server": f"https://{host}:{port}", "certificate-authority-data": authority}
    context = {"cluster": "", "user": "", "namespace": contents(f"{ACCOUNT}/namespace")}
    return {
        "clusters": [{"name": "", "cluster": cluster}],
        "users": [{"name": "", "user": {"tokenFile": f"{ACCOUNT}/token"}}],
        "contexts": [{"name": "", "context": context}],
        "current-context": "",
    }


def contents(path: str) -> str:
    """Return the contents of a file of credentials."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        what = "file" if path.startswith(ACCOUNT) else "kubeconfig"
        raise KubectlError(f"error: the {what} {path} cannot be read: {error.strerror}") from None


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the entry with this name from a list of a kubeconfig."""
    for item in items:
        if item["name"] == name:
            return item
    raise KeyError(name)


def split_answer(data: bytes) -> tuple[int, bytes]:
    """Split an HTTP answer into status code and body."""
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), body


def refusal(document: dict[str, Any], status: int) -> KubectlError:
    """Return the server's error, formatted as by the real kubectl."""
    reason = document.get("reason") or status
    message = document.get("message") or status
    return KubectlError(f"Error from server ({reason}): {message}", status)


def quote(text: str) -> str:
    """Percent-encode; urllib.parse would take longer to load than the rest of this program."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in text.encode())


# -- get ---------------------------------------------------------------------------------------


def get(api: Api, positional: list[str], options: Mapping[str, str]) -> int:
    """Print objects; return the exit code."""
    output = options.get("output", "")
    style, _, template = output.partition("=")
    if style not in ("json", "name", "jsonpath") or (style == "jsonpath") != bool(template):
        raise KubectlError(
            f'error: -o "{output}": this kubectl prints json, name or jsonpath=TEMPLATE'
        )
    kind, slash, name = (positional or [""])[0].partition("/")
    names = [name] if slash else positional[1:]
    if not kind or len(names) > 1:
        raise KubectlError(f"error: get needs a kind and at most one name\n\n{USAGE}")
    singular = kind.lower().split(".")[0]
    singular = SHORT_NAMES.get(singular, singular)
    if singular not in KINDS and singular.removesuffix("s") in KINDS:
        singular = singular.removesuffix("s")
    if singular in KINDS:
        prefix, plural, namespaced = KINDS[singular]
    else:
        singular, prefix, plural, namespaced = discover(api, singular)
    path = prefix + (f"/namespaces/{quote(api.namespace)}" if namespaced else "") + "/" + plural
    if names:
        path += "/" + quote(names[0])
    elif options.get("selector"):
        path += "?labelSelector=" + quote(options["selector"])
    try:
        document = api.get(path)
    except KubectlError as failure:
        if options.get("optional") and failure.status == 404:
            return 0
        raise
    if not names:
        # Lists of built-in kinds leave out the types of their items; kubectl prints them.
        types = {key: document[key] for key in ("apiVersion", "kind")}
        types["kind"] = types["kind"].removesuffix("List")
        document["items"] = [{**types, **item} for item in document["items"]]
    if style == "json":
        sys.stdout.write(json.dumps(document, indent=4) + "\n")
    elif style == "name":
        group = prefix.split("/")[2] if prefix.startswith("/apis/") else ""
        shown = f"{singular}.{group}" if group else singular
        for item in [document] if names else document["items"]:
            sys.stdout.write(f"{shown}/{item['metadata']['name']}\n")
    else:
        sys.stdout.write(render(template, document))
    return 0


def discover(api: Api, word: str) -> tuple[str, str, str, bool]:
    """Discover a resource by name: return singular, API path, plural, and whether namespaced."""
    for group in api.get("/apis")["groups"]:
        prefix = f"/apis/{group['preferredVersion']['groupVersion']}"
        for found in api.get(prefix)["resources"]:
            singular, plural = found["singularName"] or found["kind"].lower(), found["name"]
            names = (singular, plural, *found.get("shortNames", ()))
            if "/" not in plural and word in names:
                return singular, prefix, plural, found["namespaced"]
    raise KubectlError(f'error: the server doesn\'t have a resource type "{word}"')


def render(template: str, document: Any) -> str:
    """Render a template: text with ``{.dotted.paths}``, ``[N]`` and ``[*]``."""
    if "{" not in template:
        template = "{" + template + "}"
    text = ""
    while template:
        before, brace, template = template.partition("{")
        text += before
        if not brace:
            break
        path, brace, template = template.partition("}")
        if not brace:
            raise KubectlError("error: jsonpath: a { has no }")
        if path[:1] == '"' and path[-1:] == '"':
            text += path[1:-1].encode().decode("unicode_escape")
            continue
        found = [document]
        for step in steps(path):
            found = [value for item in found for value in follow(item, step)]
        text += " ".join(
            value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            for value in found
        )
    return text


def steps(path: str) -> list[str]:
    r"""Split a path: ``.items[*].metadata.labels.a\.b`` -> items, *, metadata, labels, a.b."""
    path = path.removeprefix("$")
    found: list[str] = []
    current, index = "", 0
    while index < len(path):
        character = path[index]
        if character == "\\" and index + 1 < len(path):
            index += 1
            current += path[index]
        elif character in ".[":
            if current:
                found.append(current)
            current = ""
            if character == "[":
                end = path.find("]", index)
                if end < 0:
                    raise KubectlError(f"error: jsonpath: {path}: a [ has no ]")
                inner = path[index + 1 : end].strip("'\"")
                if inner != "*" and not inner.isdigit() and path[index + 1] not in "'\"":
                    raise KubectlError(f"error: jsonpath: this kubectl has no [{inner}]")
                found.append(inner)
                index = end
        elif character in "() ?@":
            raise KubectlError(
                f"error: jsonpath: this kubectl understands dotted paths, not {path}"
            )
        else:
            current += character
        index += 1
    return [*found, current] if current else found


def follow(value: Any, step: str) -> list[Any]:
    """Return what one step of a path leads to: nothing, one value, or all of them."""
    if isinstance(value, dict):
        if step == "*":
            return list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list):
        if step == "*":
            return value
        return [value[int(step)]] if step.isdigit() and int(step) < len(value) else []
    return []


# -- exec --------------------------------------------------------------------------------------


def execute(api: Api, pod: str, command: list[str], options: Mapping[str, str]) -> int:
    """Run a command in a container; return its exit code."""
    pod = pod.removeprefix("pods/").removeprefix("pod/")
    query = [f"command={quote(word)}" for word in command]
    tty = bool(options.get("tty")) and os.isatty(0)
    query += ["stdout=true", f"stderr={'false' if tty else 'true'}"]
    if options.get("stdin"):
        query.append("stdin=true")
    if tty:
        query.append("tty=true")
    if options.get("container"):
        query.append("container=" + quote(options["container"]))
    path = f"/api/v1/namespaces/{quote(api.namespace)}/pods/{quote(pod)}/exec?{'&'.join(query)}"
    stream = Stream(api, path)
    if not tty:
        return stream.run(wants_stdin="stdin" in options)
    import tty as terminal
    from contextlib import suppress
    from termios import TCSADRAIN, error, tcgetattr, tcsetattr

    before = tcgetattr(0)
    try:
        terminal.setraw(0)
        return stream.run(wants_stdin="stdin" in options, resizes=True)
    finally:
        with suppress(error):  # the terminal may be gone
            tcsetattr(0, TCSADRAIN, before)


class Stream:
    """A command's streams over one websocket (``v5.channel.k8s.io``).

    Every message starts with a channel number; channel 255 reports that another channel is closed.
    """

    def __init__(self, api: Api, path: str) -> None:
        key = b2a_base64(os.urandom(16), newline=False).decode()
        head = (
            f"GET {api.base}{path} HTTP/1.1\r\nHost: {api.host}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            f"{api.authorization}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
        )
        self.socket = api.connect(head)
        # Bytes that TLS has decrypted and that are not read yet: `poll` does not report them.
        self.pending: Callable[[], int] = getattr(self.socket, "pending", int)
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.socket.recv(CHUNK)
            if not part:
                raise KubectlError("error: the server closed the connection")
            data += part
        status, rest = split_answer(data)
        if status != 101:
            raise self.refused(status, data, rest)
        self.incoming = bytearray(rest)
        self.outgoing = bytearray()
        self.message = bytearray()
        self.code: int | None = None
        self.size: os.terminal_size | None = None

    def refused(self, status: int, data: bytes, body: bytes) -> KubectlError:
        """Read the rest of a refusal."""
        self.socket.settimeout(5)
        try:
            length = data.lower().partition(b"content-length:")[2].split(None, 1)
            while length and len(body) < int(length[0]):
                part = self.socket.recv(CHUNK)
                if not part:
                    break
                body += part
            return refusal(json.loads(body), status)
        except (OSError, ValueError):
            return KubectlError(f"error: the server answered {status} to exec")

    def run(self, *, wants_stdin: bool, resizes: bool = False) -> int:
        """Move bytes until the command has ended; return its exit code."""
        self.socket.setblocking(False)
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        reading = False
        self.handle_frames()
        while self.code is None:
            if resizes:
                self.resize()
            # Input is read only when the previous input is sent, so that a slow command throttles
            # its source instead of filling memory.
            if wants_stdin and not self.outgoing and not reading:
                poll.register(0, select.POLLIN)
                reading = True
            poll.modify(self.socket, select.POLLIN | (select.POLLOUT if self.outgoing else 0))
            for descriptor, event in poll.poll(250 if resizes else None):
                if descriptor == 0:
                    poll.unregister(0)
                    reading = False
                    wants_stdin = self.forward_input()
                else:
                    self.exchange(event)
        return self.code

    def forward_input(self) -> bool:
        """Forward available input; return False at its end."""
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""
        self.send(bytes([STDIN]) + data if data else bytes([CLOSE, STDIN]))
        return bool(data)

    def exchange(self, event: int) -> None:
        """Send and receive what the socket is ready for."""
        try:
            if event & select.POLLOUT and self.outgoing:
                del self.outgoing[: self.socket.send(self.outgoing)]
            if event & ~select.POLLOUT:
                more = True
                while more:
                    data = self.socket.recv(CHUNK)
                    if not data:
                        raise KubectlError("error: the connection to the pod was lost")
                    self.incoming += data
                    self.handle_frames()
                    more = bool(self.pending())
        except BlockingIOError:
            pass
        except OSError as error:
            # TLS has its own errors for "would block"; `ssl` is not imported for plain HTTP.
            if type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                return
            raise KubectlError(
                f"error: the connection to the pod was lost: {error.strerror}"
            ) from None

    def resize(self) -> None:
        """Send the size of the terminal if it has changed."""
        try:
            size = os.get_terminal_size(0)
        except OSError:  # the terminal is gone; reading from it will fail, too
            return
        if size != self.size:
            self.size = size
            text = json.dumps({"Width": size.columns, "Height": size.lines})
            self.send(bytes([RESIZE]) + text.encode())

    def send(self, payload: bytes, opcode: int = 2) -> None:
        """Queue one frame, masked as clients must."""
        length = len(payload)
        head = bytearray([0x80 | opcode])
        if length < 126:
            head.append(0x80 | length)
        elif length < 1 << 16:
            head.append(0x80 | 126)
            head += length.to_bytes(2, "big")
        else:
            head.append(0x80 | 127)
            head += length.to_bytes(8, "big")
        mask = os.urandom(4)
        pad = (mask * (length // 4 + 1))[:length]
        masked = int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")
        self.outgoing += head + mask + masked.to_bytes(length, "big")

    def handle_frames(self) -> None:
        """Handle every complete frame received."""
        while self.code is None and len(self.incoming) >= 2:
            data = self.incoming
            length, start = data[1] & 127, 2
            if length >= 126:
                start = 4 if length == 126 else 10
                length = int.from_bytes(data[2:start], "big")
            if len(data) < start or len(data) < start + length:
                return
            payload = bytes(data[start : start + length])
            opcode, final = data[0] & 15, data[0] & 0x80
            del data[: start + length]
            if opcode == 9:
                self.send(payload, opcode=10)
            elif opcode == 8:
                raise KubectlError("error: the command's stream ended without its exit code")
            elif opcode < 3:
                self.message += payload
                if final:
                    message, self.message = bytes(self.message), bytearray()
                    self.handle(message)

    def handle(self, message: bytes) -> None:
        """Handle one message."""
        channel, data = message[:1], message[1:]
        if channel == bytes([STDOUT]):
            write(1, data)
        elif channel == bytes([STDERR]):
            write(2, data)
        elif channel == bytes([STATUS]) and data:
            self.code = exit_code(json.loads(data))


def exit_code(status: dict[str, Any]) -> int:
    """Read the exit code from the Status object that ends a command."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or []:
            if cause.get("reason") == "ExitCode":
                sys.stderr.write(f"command terminated with exit code {cause['message']}\n")
                return int(cause["message"])
    raise KubectlError(f"error: {status.get('message') or status}")


def write(descriptor: int, data: bytes) -> None:
    """Write all data."""
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    try:
        exit_status = main(sys.argv[1:])
        sys.stdout.flush()
    except KubectlError as failure:
        sys.stderr.write(f"{failure}\n")
        exit_status = 1
    except (KeyboardInterrupt, BrokenPipeError):
        exit_status = 130
    # Not sys.exit: nothing is left to clean up, and this is faster.
    os._exit(exit_status)
