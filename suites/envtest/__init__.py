"""Suites of others that start kube-apiserver and etcd themselves, here ours (`traincrew envtest`)."""
