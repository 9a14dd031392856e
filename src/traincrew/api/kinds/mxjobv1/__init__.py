"""MXJob of training-operator v1: the API. MxJob of mxnet-operator is another kind."""
