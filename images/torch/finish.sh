#!/bin/sh
# finish.sh
# Leaves out of Debian's PyTorch what training on CPUs never reads, and mends its elastic launcher.
set -eu

libraries=/usr/lib/$(uname -m)-linux-gnu
packages=/usr/lib/python3/dist-packages
distributed=$packages/torch/distributed

# Tests; and a compiler for GPUs of AMD, which a module of Open MPI's transport layer would use.
rm -rf /usr/lib/libtorch-test "$libraries"/libLLVM* "$libraries"/libamd_comgr.so* \
  "$libraries"/libamdhip64.so*
for package in networkx scipy sklearn sympy; do
  find "$packages/$package" -depth -type d -name tests -exec rm -rf {} +
done
find "$packages/torch/bin" -type f ! -name torch_shm_manager -delete

# mend FILE COUNT EXPRESSION
# Changes a file of PyTorch, and makes sure that so many lines are different.
mend() {
  sed -E "$3" "$distributed/$1" > /tmp/mended
  changed=$(diff "$distributed/$1" /tmp/mended | grep -c '^[<>]') || true
  if [ "$changed" != "$2" ]; then
    echo "$1: $changed lines have changed instead of $2: $3" >&2
    exit 1
  fi
  cat /tmp/mended > "$distributed/$1"
  rm /tmp/mended
  # Nothing is compared with its source, whose time is that of this build.
  python3 -m compileall -q -f --invalidation-mode unchecked-hash "$distributed/$1"
}

# This PyTorch is built without libuv. USE_LIBUV=0 says so, but not everywhere.
for module in c10d_rendezvous_backend dynamic_rendezvous static_tcp_rendezvous; do
  mend "elastic/rendezvous/$module.py" 1 's/^( *)multi_tenant=True,$/&\n\1use_libuv=False,/'
done
mend rendezvous.py 1 's/^( *)is_master=False,$/&\n\1use_libuv=False,/'

# PyTorch 2.3 to 2.7 close the rendezvous for everybody when one worker is told to end, as it is when
# its pod is deleted or the job scaled in (PyTorch issue 147064; 2.8 takes these lines out).
mend elastic/agent/server/local_elastic_agent.py 2 \
  '/^ *if not is_restart and self\._rdzv_handler:$/,+1d'

python3 -B -c 'import etcd, sklearn.datasets, torch.distributed.run'
