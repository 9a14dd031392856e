"""Output for users: typed views of pods and jobs, the lines that describe them, and the console.

The state of a run is converted to lines here; nothing here communicates with a cluster.
"""
