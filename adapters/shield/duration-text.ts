/** A duration for people, such as `250ms`, `1.5s`, `2m` or `24h`: at most one decimal. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${oneDecimal(ms)}ms`;
  if (ms < 60_000) return `${oneDecimal(ms / 1000)}s`;
  if (ms < 3_600_000) return `${oneDecimal(ms / 60_000)}m`;
  return `${oneDecimal(ms / 3_600_000)}h`;
}

function oneDecimal(value: number): string {
  return String(Math.round(value * 10) / 10);
}
