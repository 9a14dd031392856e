module traincrew/cluster/jobset

go 1.26.6

require sigs.k8s.io/jobset v0.12.0
