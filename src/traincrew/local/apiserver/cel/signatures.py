"""Declared functions: names, and overloads with the types of arguments and results.

They are those of cel-go and of "Kubernetes CEL libraries" in the Kubernetes documentation.
"""

from __future__ import annotations

import re

from .celtypes import parse_type
from .namedformats import FORMATS
from .overloads import Overload

__all__ = ["OVERLOADS"]

_DECLARED = """
size: (string) int | (bytes) int | (list(A)) int | (map(A,B)) int
  | string.() int | bytes.() int | list(A).() int | map(A,B).() int
contains: string.(string) bool
startsWith: string.(string) bool
endsWith: string.(string) bool
matches: string.(string) bool | (string,string) bool
charAt: string.(int) string
find: string.(string) string
findAll: string.(string) list(string) | string.(string,int) list(string)
format: string.(list(dyn)) string
indexOf: string.(string) int | string.(string,int) int | list(A).(A) int
lastIndexOf: string.(string) int | string.(string,int) int | list(A).(A) int
join: list(string).() string | list(string).(string) string
lowerAscii: string.() string
upperAscii: string.() string
replace: string.(string,string) string | string.(string,string,int) string
reverse: list(A).() list(A)
split: string.(string) list(string) | string.(string,int) list(string)
strings.quote: (string) string
substring: string.(int) string | string.(int,int) string
trim: string.() string
distinct: list(A).() list(A)
first: list(A).() optional(A)
last: list(A).() optional(A)
flatten: list(list(A)).() list(A) | list(dyn).(int) list(dyn)
isSorted: list(COMPARABLE).() bool
lists.range: (int) list(int)
max: list(COMPARABLE).() COMPARABLE
min: list(COMPARABLE).() COMPARABLE
slice: list(A).(int,int) list(A)
sort: list(COMPARABLE).() list(COMPARABLE)
sum: list(SUMMABLE).() SUMMABLE
sets.contains: (list(A),list(A)) bool
sets.equivalent: (list(A),list(A)) bool
sets.intersects: (list(A),list(A)) bool
url: (string) kubernetes.URL
isURL: (string) bool
getEscapedPath: kubernetes.URL.() string
getHost: kubernetes.URL.() string
getHostname: kubernetes.URL.() string
getPort: kubernetes.URL.() string
getQuery: kubernetes.URL.() map(string,list(string))
getScheme: kubernetes.URL.() string
ip: (string) net.IP | net.CIDR.() net.IP
isIP: (string) bool
ip.isCanonical: (string) bool
cidr: (string) net.CIDR
isCIDR: (string) bool
containsCIDR: net.CIDR.(string) bool | net.CIDR.(net.CIDR) bool
containsIP: net.CIDR.(string) bool | net.CIDR.(net.IP) bool
family: net.IP.() int
isGlobalUnicast: net.IP.() bool
isLinkLocalMulticast: net.IP.() bool
isLinkLocalUnicast: net.IP.() bool
isLoopback: net.IP.() bool
isUnspecified: net.IP.() bool
masked: net.CIDR.() net.CIDR
prefixLength: net.CIDR.() int
quantity: (string) kubernetes.Quantity
isQuantity: (string) bool
add: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity
  | kubernetes.Quantity.(int) kubernetes.Quantity
sub: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity
  | kubernetes.Quantity.(int) kubernetes.Quantity
asApproximateFloat: kubernetes.Quantity.() double
asInteger: kubernetes.Quantity.() int
compareTo: kubernetes.Quantity.(kubernetes.Quantity) int
  | kubernetes.Semver.(kubernetes.Semver) int
isGreaterThan: kubernetes.Quantity.(kubernetes.Quantity) bool
  | kubernetes.Semver.(kubernetes.Semver) bool
isLessThan: kubernetes.Quantity.(kubernetes.Quantity) bool
  | kubernetes.Semver.(kubernetes.Semver) bool
isInteger: kubernetes.Quantity.() bool
sign: (kubernetes.Quantity) int
semver: (string) kubernetes.Semver | (string,bool) kubernetes.Semver
isSemver: (string) bool | (string,bool) bool
major: kubernetes.Semver.() int
minor: kubernetes.Semver.() int
patch: kubernetes.Semver.() int
path: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.PathCheck
group: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.GroupCheck
serviceAccount: kubernetes.authorization.Authorizer.(string,string)
  kubernetes.authorization.Authorizer
resource: kubernetes.authorization.GroupCheck.(string) kubernetes.authorization.ResourceCheck
subresource: RESOURCE_CHECK.(string) RESOURCE_CHECK
namespace: RESOURCE_CHECK.(string) RESOURCE_CHECK
name: RESOURCE_CHECK.(string) RESOURCE_CHECK
fieldSelector: RESOURCE_CHECK.(string) RESOURCE_CHECK
labelSelector: RESOURCE_CHECK.(string) RESOURCE_CHECK
check: kubernetes.authorization.PathCheck.(string) kubernetes.authorization.Decision
  | RESOURCE_CHECK.(string) kubernetes.authorization.Decision
errored: kubernetes.authorization.Decision.() bool
error: kubernetes.authorization.Decision.() string
allowed: kubernetes.authorization.Decision.() bool
reason: kubernetes.authorization.Decision.() string
jsonpatch.escapeKey: (string) string
format.named: (string) optional(kubernetes.NamedFormat)
validate: kubernetes.NamedFormat.(string) optional(list(string))
bool: (bool) bool | (string) bool
bytes: (bytes) bytes | (string) bytes
double: (double) double | (int) double | (uint) double | (string) double
duration: (duration) duration | (string) duration
dyn: (A) dyn
int: (int) int | (double) int | (uint) int | (string) int | (timestamp) int
string: (string) string | (bool) string | (int) string | (uint) string | (double) string
  | (bytes) string | (timestamp) string | (duration) string | (net.IP) string | (net.CIDR) string
timestamp: (timestamp) timestamp | (string) timestamp | (int) timestamp
type: (A) type
uint: (uint) uint | (int) uint | (double) uint | (string) uint
getFullYear: timestamp.() int | timestamp.(string) int
getMonth: timestamp.() int | timestamp.(string) int
getDate: timestamp.() int | timestamp.(string) int
getDayOfMonth: timestamp.() int | timestamp.(string) int
getDayOfWeek: timestamp.() int | timestamp.(string) int
getDayOfYear: timestamp.() int | timestamp.(string) int
getHours: timestamp.() int | timestamp.(string) int | duration.() int
getMinutes: timestamp.() int | timestamp.(string) int | duration.() int
getSeconds: timestamp.() int | timestamp.(string) int | duration.() int
getMilliseconds: timestamp.() int | timestamp.(string) int | duration.() int
optional.of: (A) optional(A)
optional.ofNonZeroValue: (A) optional(A)
optional.none: () optional(A)
hasValue: optional(A).() bool
value: optional(A).() A
or: optional(A).(optional(A)) optional(A)
orValue: optional(A).(A) A
optional.unwrap: (list(optional(A))) list(A)
unwrapOpt: list(optional(A)).() list(A)
"""


_ONE = re.compile(
    r"(?:(?P<target>\w+(?:\.\w+)*(?:\([\w.,]*(?:\(\w+\))?\))?)\.)?\((?P<given>.*)\) (?P<result>\S+)"
)
_SEPARATOR = re.compile(r",(?![^(]*\))")


def _overload(text: str) -> Overload:
    match = _ONE.fullmatch(text.strip())
    assert match is not None, text
    given = [each for each in _SEPARATOR.split(match["given"]) if each]
    if match["target"]:
        given.insert(0, match["target"])
    return Overload(
        bool(match["target"]), tuple(map(parse_type, given)), parse_type(match["result"])
    )


_CLASSES = {
    "COMPARABLE": "int uint double bool duration timestamp string bytes",
    "SUMMABLE": "int uint double duration",
    "RESOURCE_CHECK": "kubernetes.authorization.ResourceCheck",
}
"""Types for which a function is declared, each in an overload of its own."""


def _each_type(overload: str) -> list[str]:
    for name, types in _CLASSES.items():
        if name in overload:
            return [overload.replace(name, each) for each in types.split()]
    return [overload]


def _read(text: str) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in text.strip().replace("\n  ", " ").split("\n"):
        name, _, overloads = line.partition(": ")
        found[name] = [
            _overload(text) for each in overloads.split(" | ") for text in _each_type(each)
        ]
    return found


_FORMAT = parse_type("kubernetes.NamedFormat")

OVERLOADS = _read(_DECLARED) | {
    f"format.{name}": [Overload(False, (), _FORMAT)] for name in FORMATS
}
"""Overloads by name."""
