import type { RejectionReason } from "./rejection-reason.js";

/**
 * The name of a piece of lease metadata, together with the type of its value, so that
 * `lease.tryGetMetadata(MetadataName.retryAfter)` is a `number | undefined` without a cast.
 *
 * Two names are the same when their text is the same (`equals`); case matters. Models .NET's `MetadataName<T>`.
 *
 * @example
 * ```ts
 * import { MetadataName } from "headgate";
 *
 * const region = MetadataName.create<string>("REGION");
 * ```
 *
 * @public
 */
export class MetadataName<T> {
  /** How long to wait before trying again, in milliseconds. Only on refused leases. Raw name `RETRY_AFTER`. */
  static readonly retryAfter: MetadataName<number> = new MetadataName("RETRY_AFTER");
  /** Why the lease was refused, as text for people. Raw name `REASON_PHRASE`. */
  static readonly reasonPhrase: MetadataName<string> = new MetadataName("REASON_PHRASE");
  /** Why the lease was refused, as a stable name. Raw name `REJECTION_REASON`. */
  static readonly rejectionReason: MetadataName<RejectionReason> = new MetadataName("REJECTION_REASON");
  /** The limiter's limit in permits. Raw name `LIMIT`. */
  static readonly limit: MetadataName<number> = new MetadataName("LIMIT");
  /** Permits left at the time of reading; right in the turn of the grant. Raw name `REMAINING`. */
  static readonly remaining: MetadataName<number> = new MetadataName("REMAINING");
  /** Milliseconds until the limiter is full again, at the time of reading. Raw name `RESET_AFTER`. */
  static readonly resetAfter: MetadataName<number> = new MetadataName("RESET_AFTER");

  /** The raw name. */
  readonly name: string;
  /** Exists for type inference only; never has a value. */
  declare protected readonly valueType?: T;

  private constructor(name: string) {
    if (typeof name !== "string") throw new TypeError(`name must be a string; got ${String(name)}`);
    this.name = name;
  }

  /**
   * Makes a name for metadata of your own.
   *
   * @throws TypeError when `name` is not a string.
   */
  static create<T>(name: string): MetadataName<T> {
    return new MetadataName<T>(name);
  }

  /** Whether the other name has the same text. */
  equals(other: MetadataName<unknown>): boolean {
    return this.name === other?.name;
  }

  /** The raw name. */
  toString(): string {
    return this.name;
  }
}
