"""Manifests of pods with volumes, whose files a run adds to or saves."""

from pathlib import Path

from cli.programs import IMAGE

POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: alone}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {IMAGE}
    command: [sh, -c, 'SCRIPT']
    env: [{{name: A, value: manifest}}, {{name: B, value: "$(A) and more"}}]
    volumeMounts:
    - {{name: data, mountPath: /data}}
    - {{name: script, mountPath: /script}}
    - {{name: deep, mountPath: /code/inside}}
  volumes:
  - name: data
    hostPath: {{path: here}}
  - name: script
    configMap: {{name: script}}
  - name: deep
    emptyDir: {{}}
"""


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\ndata: {a: b}\n---"


def pod(directory: Path, script: str = "true") -> Path:
    path = directory / "pod.yaml"
    path.write_text(CONFIG_MAP + POD.replace("SCRIPT", script))
    return path


JOB = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: writes}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: {IMAGE}
        command:
        - sh
        - -c
        - |
          mkdir /result; echo $JOB_COMPLETION_INDEX > /result/index; echo > /tmp/temporary
          echo > /data/$JOB_COMPLETION_INDEX
          if [ $JOB_COMPLETION_INDEX = 1 ]; then mkdir /model; echo model > /model/weights; fi
          echo written; exec sleep $SLEEP
        env: [{{name: SLEEP, value: "0"}}]
        volumeMounts: [{{name: d, mountPath: /data}}]
      volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}]
"""


def job(directory: Path) -> Path:
    path = directory / "job.yaml"
    path.write_text(JOB)
    return path
