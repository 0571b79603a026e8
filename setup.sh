#!/usr/bin/env bash
# Makes this machine ready: the environment .venv with all requirements. Safe to run again; when nothing
# changed, it is done at once.
#
#   ./setup.sh                     set up for the CPU (or for what was set up before)
#   ./setup.sh --sys gpu           set up for an NVIDIA GPU; tpu likewise
#   ./setup.sh --extra mujoco      add extras of pyproject.toml (a,b), which stay: box2d, atari, mujoco ...
#   ./setup.sh CMD ARGUMENTS...    set up where needed, then run CMD in the environment: uv pip install minigrid
#   UV_PYTHON=3.12 ./setup.sh      make .venv of that Python, not of the fastest one here; rm -r .venv first
#   ./setup.sh --lock [FLAGS]      write the locks anew, with FLAGS of `uv pip compile` such as --upgrade
set -euo pipefail

python_wanted='>=3.11,<3.13'
# Prints how many seconds a Python takes for calls, attributes, strings and dicts, and where it is.
python_timed='
import sys, time
class Counted:
    def __init__(self, number): self.number = number
    def plus(self, other, **more): return self.number + other
def seconds():
    begun, found = time.perf_counter(), {}
    for number in range(50_000): found[str(number)] = Counted(number).plus(1, more=found)
    return time.perf_counter() - begun
print(min(seconds() for _ in range(5)), sys.executable)'
# What the wheels load and do not bring along; on most machines all of it is there.
debian_packages=(ca-certificates libgcc-s1 libstdc++6 zlib1g)
# Qt, which Procgen draws with: from Debian, or from PyPI where apt-get or root is missing.
qt_debian=libqt5gui5
qt_pypi='PyQt5-Qt5>=5.15,<6'
uv_pypi='uv>=0.13.8,<0.14'

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
venv=$root/.venv
lock=$root/requirements.lock # one version of everything, with its hashes: --lock
uv_lock=$root/requirements-uv.lock
stamp=$venv/.setup-stamp
python=$venv/bin/python

say() { printf 'setup.sh: %s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

usage() { sed -n '2,10s/^# \{0,1\}//p' "$root/setup.sh"; }

# Runs a command out of sight; when it fails, shows the end of what it wrote and then one line of our own.
quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "$what failed: $*"
  fi
}

requirements_of() {
  case $1 in
    local) echo "$root/requirements.txt" ;;
    gpu | tpu) echo "$root/requirements-$1.txt" ;;
    *) fail "unknown --sys '$1': one of local, gpu, tpu" ;;
  esac
}

# "SYSTEM FOLDER" that .venv was made for; nothing where it was made by hand.
made_for() { cat "$venv/.made-for" 2>/dev/null || true; }

# Extras that .venv has, or is to have, one a line.
extras_of() { { cat "$venv/.extras" 2>/dev/null || true; tr ',' '\n' <<<"$extras"; } | sed '/^$/d' | sort -u; }

# A hash of everything that decides what is installed.
stamp_text() {
  local file
  file=$(requirements_of "$1") || exit 1
  { echo "$1 $venv"; extras_of; cat "$file" "$lock" "$root/pyproject.toml" "$root/setup.sh"; } | sha256sum | cut -d ' ' -f 1
}

is_current() { [[ -x $python && -f $stamp && $(<"$stamp") == "$(stamp_text "$1")" ]]; }

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  say "installing Debian packages: $*"
  quietly "apt-get update" apt-get update
  quietly "installing Debian packages" apt-get install -y --no-install-recommends "$@"
}

install_debian_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: the imports below will tell
  local missing=() package
  for package in "${debian_packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return 0
  if [[ $EUID -eq 0 ]]; then
    apt_install "${missing[@]}"
  else
    say "warning: these Debian packages are missing, and only root can install them: ${missing[*]}"
  fi
}

# Sets uv to a working uv: the machine's, or the lock's, installed in .uv, which needs no root.
find_uv() {
  local wanted
  uv=$(command -v uv || true)
  if [[ -n $uv ]] && "$uv" --version >/dev/null 2>&1; then return; fi
  uv=$root/.uv/bin/uv
  wanted=$(sed -n 's/^uv==\([^ ]*\).*/uv \1/p' "$uv_lock")
  if [[ -x $uv && "$("$uv" --version 2>/dev/null) " == "$wanted "* ]]; then return; fi
  if ! python3 -m pip --version >/dev/null 2>&1; then
    if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
      apt_install python3 python3-pip
    else
      fail "neither uv nor python3 with pip is here: install one of them, or run this once as root"
    fi
  fi
  say "installing uv into .uv"
  # --target: works where the system's Python refuses installs, and leaves that Python alone
  quietly "installing uv" python3 -m pip install --quiet --upgrade --target "$root/.uv" \
    --require-hashes -r "$uv_lock"
}

# Which Python .venv is made of: the first that uv finds, or another if that is faster by a tenth. One that was
# compiled by hand, pyenv's for one, is often without its optimisations, and takes half as long again to start
# a run. Equal ones: the first. UV_PYTHON narrows the choice.
choose_python() {
  local wanted=${UV_PYTHON:-$python_wanted} path chosen
  chosen=$(
    "$uv" python list --only-installed "$wanted" 2>/dev/null | sed -E 's/^[^ ]+ +//; s/ -> .*//' |
      while read -r path; do "$path" -c "$python_timed" 2>/dev/null || true; done |
      awk '!best || $1 < 0.9 * best { best = $1; sub(/^[^ ]+ /, ""); path = $0 } END { print path }'
  ) || true
  echo "${chosen:-$wanted}"
}

# Makes .venv unless a usable one is there. One that was made for another system is made anew, because
# TensorFlow's wheels overwrite each other; one that was moved too, because its scripts name the old place.
make_venv() {
  local sys=$1 before version kept chosen
  before=$(made_for)
  kept=$(extras_of)
  version='import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))'
  if [[ ${before:-local $venv} != "$sys $venv" ]] || ! "$python" -c "$version" >/dev/null 2>&1; then
    [[ ! -L $venv ]] || fail ".venv is a link to $(readlink "$venv"), which was made for another folder and" \
      "would be emptied: remove the link (rm .venv), and give the same command again"
    chosen=$(choose_python)
    say "creating .venv with Python $chosen"
    quietly "creating .venv" "$uv" venv --quiet --clear --no-project --python "$chosen" "$venv"
    printf '%s\n' "$sys $venv" >"$venv/.made-for"
  fi
  [[ -z $kept ]] || printf '%s\n' "$kept" >"$venv/.extras"
}

# Installs what files of requirements ask for, in the versions of the lock, from files that have its hashes.
install_locked() {
  local pins=$venv/.pins.txt
  "$uv" pip compile --quiet --no-header --no-annotate --python "$python" \
    --constraints "$lock" --output-file "$pins" "$@" &&
    "$uv" pip install --quiet --compile-bytecode --python "$python" --require-hashes \
      --constraints "$lock" -r "$pins" && return
  echo "Only what is in requirements.lock is installed: after a change of requirements, make lock adds to it."
  return 1
}

# Writes the locks: all systems and extras together, for Python 3.11 and 3.12. No address in them: mirrors differ.
write_locks() {
  local scratch compile
  scratch=$(mktemp -d)
  find_uv
  compile=("$uv" pip compile --quiet --no-header --no-annotate --universal --python-version 3.11 --generate-hashes)
  # A copy, because the build of the project's metadata leaves files. What the locks hold stays, where it fits.
  cp "$root"/{pyproject.toml,README.md,LICENSE,requirements*} "$scratch"
  echo "$qt_pypi" >"$scratch/qt.in"
  echo "$uv_pypi" >"$scratch/uv.in"
  say "resolving all requirements"
  cd "$scratch"
  quietly "resolving" "${compile[@]}" "$@" --output-file requirements.lock --all-extras pyproject.toml \
    requirements-gpu.txt requirements-tpu.txt qt.in
  quietly "resolving uv" "${compile[@]}" "$@" --output-file requirements-uv.lock uv.in
  {
    echo "# Written by make lock. What setup.sh and k8s/Dockerfile may install, for every --sys and extra: not to be"
    echo "# installed as a whole."
    cat requirements.lock
  } >"$lock"
  { echo "# Written by make lock."; cat requirements-uv.lock; } >"$uv_lock"
  rm -rf "$scratch"
}

install_requirements() {
  local requirements=$1 developer=$venv/.developer-requirements.txt
  # shellcheck disable=SC2046  # a word each
  "$python" - "$root/pyproject.toml" dev $(extras_of) >"$developer" <<'PYTHON' || fail "cannot read pyproject.toml"
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    known = tomllib.load(file)["project"]["optional-dependencies"]
print("\n".join(line for name in sys.argv[2:] for line in known.get(name, ())))
PYTHON
  say "installing ${requirements##*/} (minutes on a new machine)"
  quietly "installing ${requirements##*/}" install_locked "$requirements" "$developer"
  quietly "importing what was installed" env TF_CPP_MIN_LOG_LEVEL=2 "$python" -c \
    "import envpool, gymnasium, imageio_ffmpeg, keras, numpy, pydantic, pygame, rich, tensorboard, tensorflow"
}

install_qt() {
  [[ $(uname -s) == Linux ]] || return 0
  "$python" -c 'import ctypes; ctypes.CDLL("libQt5Gui.so.5")' 2>/dev/null && return
  if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null && (apt_install "$qt_debian"); then return; fi
  say "installing $qt_pypi from PyPI"
  install_locked - <<<"$qt_pypi" >/dev/null 2>&1 ||
    say "warning: Qt could not be installed: Procgen (CoinRun) will not run"
}

set_up() {
  local sys=$1 text
  text=$(stamp_text "$sys") || exit 1
  install_debian_packages
  find_uv
  rm -f "$stamp"
  make_venv "$sys"
  install_requirements "$(requirements_of "$sys")"
  install_qt
  printf '%s\n' "$text" >"$stamp.new"
  mv "$stamp.new" "$stamp"
  say "ready (--sys $sys); activate with: source .venv/bin/activate"
}

main() {
  local sys="" name known
  extras=""
  while [[ $# -gt 0 ]]; do
    case $1 in
      --sys) [[ $# -ge 2 ]] || fail "--sys needs one of local, gpu, tpu"; sys=$2; shift 2 ;;
      --sys=*) sys=${1#--sys=}; shift ;;
      --extra) [[ $# -ge 2 ]] || fail "--extra needs names of extras, such as mujoco,box2d"; extras+=,$2; shift 2 ;;
      --extra=*) extras+=,${1#--extra=}; shift ;;
      --lock) shift; write_locks "$@"; exit 0 ;;
      -h | --help) usage; exit 0 ;;
      --) shift; break ;;
      -*) fail "unknown option $1: see ./setup.sh --help" ;;
      *) break ;;
    esac
  done
  if [[ -z $sys ]]; then
    sys=$(made_for)
    sys=${sys%% *}
    sys=${sys:-local}
  fi
  requirements_of "$sys" >/dev/null
  known=$(sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z0-9]*\) = \[.*/\1/p' "$root/pyproject.toml")
  for name in ${extras//,/ }; do
    grep -qx "$name" <<<"$known" || fail "unknown --extra '$name': one of $(tr '\n' ' ' <<<"$known")"
  done
  if ! is_current "$sys"; then
    { exec 9>"$root/.setup.lock"; } 2>/dev/null || fail "cannot write in $root"
    if command -v flock >/dev/null; then flock 9; fi # two at once: the second waits, then finds it done
    is_current "$sys" || set_up "$sys"
    exec 9>&-
  elif [[ $# -eq 0 ]]; then
    say "ready (--sys $sys)"
  fi
  if [[ $# -gt 0 ]]; then
    export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH:$root/.uv/bin
    unset PYTHONHOME
    exec "$@"
  fi
}

main "$@"
