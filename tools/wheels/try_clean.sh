#!/usr/bin/env bash
# Installs the wheels where there is nothing else, and runs a first program there.
#
#   tools/wheels/try_clean.sh [folder of wheels]
#
# For each interpreter that a wheel is for: a new environment without NumPy, a PATH without a compiler, a home folder
# that cannot be written to, and the user `nobody` where this is root. With debootstrap and as root also a Debian
# system of its own (CLEAN_SUITE names another than the stable one, CLEAN_ROOT keeps it for the next time), which has
# no libgomp and no C++ compiler at all.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheels=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
install -m 644 "$here/first_program.py" "$work/first_program.py"
mkdir -m 555 "$work/home"

as_nobody() {
  if [ "$(id -u)" = 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi
}

interpreters=$(python3 "$here/build.py" --list)
tried=0
for wheel in "$wheels"/rushlight-*.whl; do
  tag=$(basename "$wheel" | cut -d- -f3)
  version=3.${tag#cp3}
  python=$(grep "/python$version\$" <<< "$interpreters" || true)
  [ -n "$python" ] || { echo "== $(basename "$wheel"): no python$version here, not tried"; continue; }
  "$python" -m venv "$work/$tag"
  start=$SECONDS
  "$work/$tag/bin/pip" install --quiet --disable-pip-version-check --find-links "$wheels" "$wheel"
  echo "== $(basename "$wheel"): installed in $((SECONDS - start)) s," \
    "$(du -sm --exclude=pip --exclude='pip-*' --exclude=setuptools* "$work/$tag/lib" | cut -f1) MB"
  # Interpreters below a home folder are out of nobody's reach.
  user=as_nobody
  as_nobody "$work/$tag/bin/python" -c "" 2> /dev/null || user=
  (cd / && $user env -i PATH="$work/$tag/bin" HOME="$work/home" TMPDIR=/tmp \
    python "$work/first_program.py")
  tried=$((tried + 1))
done
[ $tried -gt 0 ] || { echo "no wheel could be tried: no interpreter for any of them" >&2; exit 1; }

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "== no Debian system of its own was tried: that needs root and debootstrap"
  exit
fi
root=${CLEAN_ROOT:-$work/root}
[ -e "$root/usr/bin/python3" ] || debootstrap --variant=minbase --include=python3-venv,ca-certificates \
  "${CLEAN_SUITE:-stable}" "$root" > /dev/null
version=$(chroot "$root" python3 -c "import sys; print('cp3%d' % sys.version_info[1])")
ls "$wheels"/rushlight-*-"$version"-*.whl > /dev/null || { echo "no wheel for the system's $version" >&2; exit 1; }
rm -rf "$root/wheels" "$root/venv"
# What the wheel asks for is fetched out here, so that the system needs no network.
python3 -m venv "$work/fetch"
"$work/fetch/bin/pip" download --quiet --disable-pip-version-check --dest "$root/wheels" --find-links "$wheels" \
  --only-binary :all: --python-version "3.${version#cp3}" "$wheels"/rushlight-*-"$version"-*.whl
cp "$work/first_program.py" "$root/wheels"
mountpoint -q "$root/proc" || { mount -t proc proc "$root/proc"; trap 'umount "$root/proc"; rm -rf "$work"' EXIT; }
chroot "$root" sh -c "! ls /usr/lib/*/libgomp.so.1 2> /dev/null && ! command -v cc" \
  || { echo "the system has a compiler or libgomp: it shows nothing" >&2; exit 1; }
start=$SECONDS
chroot "$root" sh -c "python3 -m venv /venv && /venv/bin/pip install --quiet --no-index --find-links /wheels rushlight"
echo "== a bare Debian, $version: installed in $((SECONDS - start)) s"
chroot --userspec=65534:65534 "$root" env -i PATH=/usr/bin HOME=/nonexistent /venv/bin/python /wheels/first_program.py
