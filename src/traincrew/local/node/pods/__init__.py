"""A pod from its binding to its removal: start, termination, and what is reported.

`Node` creates one `Pod` per pod bound to it and passes every later version of the object on. The
pod runs its containers and keeps its record; it starts no process itself and does not know how the
node finds its pods.
"""
