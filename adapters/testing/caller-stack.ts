/** A function by which callers come in. */
type Entry = (...args: never[]) => unknown;

/** Frames that are enough to see past the library's own. */
const MANY_FRAMES = 50;

/** The frames of a trace, without the line that names the error. */
function framesOf(trace: { readonly stack?: string }): string {
  return String(trace.stack).replace(/^[\w[\] ]*Error.*\n?|^\[object Object\]\n?/, "");
}

/**
 * Where the code stands, as text: the frames that called the latest call of `entry`, or all of them where a host cannot
 * leave out some, or `entry` was not called. It is text at once: a trace that is not yet text keeps alive what its frames work on.
 */
export function callerStack(entry: Entry): string {
  if (typeof Error.captureStackTrace !== "function") return framesOf(new Error());
  const trace: { stack?: string } = {};
  Error.captureStackTrace(trace, entry);
  const frames = framesOf(trace);
  if (frames !== "") return frames;
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = MANY_FRAMES;
  try {
    return framesOf(new Error());
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
