"""HorizontalPodAutoscalers: `metrics`, `limits` and `plan` decide, `controller` does it."""
