"""Output for users: typed views of pods and jobs, words, signs, and the console.

Nothing here knows what is shown of a job, or communicates with a cluster.
"""
