"""
The script that starts a node from an unpacked folder: Debian's own expect to be installed.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["LAUNCHER", "WRAPPED", "write_launcher"]

LAUNCHER = "anarchon-rabbitmq"
"""
The script's name. It lies in the folder of Erlang.
"""

WRAPPED = tuple(
    f"erts-*/bin/{name}"
    for name in ("beam.smp", "epmd", "erl_call", "erl_child_setup", "erlexec", "inet_gethost")
)
"""
The programs that the runtime starts by itself, as patterns in the folder of Erlang.
"""

_SCRIPT = """\
#!/bin/sh
root=$(cd "$(dirname "$0")/../../.." && pwd)
for home in "$root"/usr/lib/rabbitmq/lib/rabbitmq_server-*; do :; done
if [ "$1" = --version ]; then
  echo "RabbitMQ ${home##*-}"
  exit
fi
ROOTDIR="$root/usr/lib/erlang"
for BINDIR in "$ROOTDIR"/erts-*/bin; do :; done
EMU=beam PROGNAME=erl
ERL_LIBS="$home/plugins" RABBITMQ_HOME="$home" RABBITMQ_PLUGINS_DIR="$home/plugins"
export ROOTDIR BINDIR EMU PROGNAME ERL_LIBS RABBITMQ_HOME RABBITMQ_PLUGINS_DIR
if [ "$1" = --call ]; then
  shift
  exec "$BINDIR/erl_call" "$@"
fi
if [ "$1" = --erl ]; then
  shift
  exec "$BINDIR/erlexec" "$@"
fi
# The port mapper: it ends at once where another one has the port already.
"$BINDIR/epmd" -daemon
tries=0
until "$BINDIR/epmd" -names >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ $tries -gt 200 ]; then
    echo "epmd does not answer on port $ERL_EPMD_PORT"
    exit 1
  fi
  sleep 0.05
done
[ "$1" = --mapper ] && exec sleep 2147483647
exec "$BINDIR/erlexec" "$@"
"""

# The package's own are for the folder where it would be installed.
_ERL = f"""\
#!/bin/sh
exec "$(dirname "$0")/../../{LAUNCHER}" --erl "$@"
"""


def write_launcher(folder: Path) -> None:
    """
    Put the script beside an unpacked Erlang.
    """
    inner = [(path, _ERL) for path in folder.glob("erts-*/bin/erl")]
    for path, text in [(folder / LAUNCHER, _SCRIPT), *inner]:
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
