/**
 * A simulation that cannot go on: the limiter failed, time does not advance, or the run broke a law that every run must
 * keep, such as that each attempt ends exactly once.
 *
 * @public
 */
export class SimulationError extends Error {
  override readonly name: string = "SimulationError";
  /** When it happened, in virtual milliseconds. */
  readonly timeMs: number;
  /** Whose attempt it was: the number of the arrival, from 0; undefined when it was nobody's. */
  readonly requestId: number | undefined;

  constructor(message: string, timeMs: number, requestId?: number, cause?: unknown) {
    const whose = requestId === undefined ? "" : `, request ${requestId}`;
    super(`${message} (at ${timeMs} ms of virtual time${whose})`, cause === undefined ? {} : { cause });
    this.timeMs = timeMs;
    this.requestId = requestId;
  }
}
