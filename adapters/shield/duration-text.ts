/** A duration for people, such as `250ms`, `1.5s`, `2m` or `24h`: at most one decimal, but never 0. */
export function durationText(ms: number): string {
  // Rounded before they are compared: 999.96 ms is 1s.
  const [inMs, seconds, minutes] = [oneDecimal(ms), oneDecimal(ms / 1000), oneDecimal(ms / 60_000)];
  if (inMs < 1000) return `${inMs === 0 ? ms : inMs}ms`;
  if (seconds < 60) return `${seconds}s`;
  if (minutes < 60) return `${minutes}m`;
  return `${oneDecimal(ms / 3_600_000)}h`;
}

function oneDecimal(value: number): number {
  return Math.round(value * 10) / 10;
}
