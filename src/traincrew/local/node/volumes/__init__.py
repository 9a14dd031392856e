"""The volumes of pods as directories of this machine.

A pod prepares its `PodVolumes` before its containers, and refreshes those that show API objects.
Their contents are computed by pure functions (`payloads`); the mount points in containers are not
known here.
"""
