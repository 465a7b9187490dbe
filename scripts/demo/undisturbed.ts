/**
 * Repeats a run once when it went wrong while a process stood still: that was the machine, not the limiter.
 *
 * @param disturbance - What went wrong and for how long the machine stood still; undefined when the run counts.
 */
export async function undisturbed<Result>(
  run: () => Promise<Result>,
  disturbance: (result: Result) => string | undefined,
): Promise<Result> {
  const result = await run();
  const what = disturbance(result);
  if (what === undefined) return result;
  console.error(`${what}; running it again.`);
  return await run();
}
