module traincrew/cluster/pause

go 1.24
