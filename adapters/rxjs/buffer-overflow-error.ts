/**
 * Ends a stream whose values came faster than its limiter let them through, when so many were waiting that there was no
 * room for another.
 *
 * @public
 */
export class BufferOverflowError extends Error {
  override readonly name: string = "BufferOverflowError";
  /** Always `ERR_BUFFER_OVERFLOW`. */
  readonly code: string = "ERR_BUFFER_OVERFLOW";
  /** How many values may wait. */
  readonly size: number;

  /** @param size - How many values may wait. */
  constructor(size: number) {
    super(
      `${size} values wait for the limiter already, which is all that options.buffer.size allows. Let values go by ` +
        'options.buffer.overflow ("dropNewest", "dropOldest" or a function), raise the size, or read a source that can ' +
        "wait with limitedFrom.",
    );
    this.size = size;
  }
}
