/** What a window of samples comes to. Nothing is allocated for a sample. */
export abstract class SampleWindow {
  count = 0;
  drops = 0;
  /** Infinite while there are none. */
  minRtt: number = Number.POSITIVE_INFINITY;
  maxInFlight = 0;

  /** The one duration that stands for all; 0 if there are none. */
  abstract get trackedRtt(): number;

  /** Takes in the duration of the sample that is being added, which is not in `count` yet. */
  protected abstract addRtt(rtt: number): void;

  add(rtt: number, inFlight: number, didDrop: boolean): void {
    this.addRtt(rtt);
    this.count += 1;
    if (didDrop) this.drops += 1;
    if (rtt < this.minRtt) this.minRtt = rtt;
    // Not Math.max, in which one NaN would stay.
    if (inFlight > this.maxInFlight) this.maxInFlight = inFlight;
  }

  reset(): void {
    this.count = 0;
    this.drops = 0;
    this.minRtt = Number.POSITIVE_INFINITY;
    this.maxInFlight = 0;
  }
}

/** The mean. */
export class AverageWindow extends SampleWindow {
  #sum = 0;

  override get trackedRtt(): number {
    return this.count === 0 ? 0 : this.#sum / this.count;
  }

  protected override addRtt(rtt: number): void {
    this.#sum += rtt;
  }

  override reset(): void {
    super.reset();
    this.#sum = 0;
  }
}

/** A percentile of the first durations, as many as there is room for; those beyond are counted but not kept. */
export class PercentileWindow extends SampleWindow {
  readonly #percentile: number;
  readonly #kept: Float64Array;

  constructor(percentile: number, capacity: number) {
    super();
    this.#percentile = percentile;
    this.#kept = new Float64Array(capacity);
  }

  override get trackedRtt(): number {
    const size = Math.min(this.count, this.#kept.length);
    if (size === 0) return 0;
    // In place: the order in which they came matters to nobody.
    const sorted = this.#kept.subarray(0, size).sort();
    const index = Math.floor(size * this.#percentile + 0.5) - 1;
    return sorted[Math.max(0, Math.min(size - 1, index))] as number;
  }

  protected override addRtt(rtt: number): void {
    if (this.count < this.#kept.length) this.#kept[this.count] = rtt;
  }
}
