/*
 * Telling sinks, which are other people's code and may do anything: give permits back, acquire more, dispose the limiter. So
 * nobody is told while a queue is at work. What is to be told is collected here, for the whole process, and told when the
 * outermost call is done; whatever a sink causes is told after it, by the same loop. The stack stays as deep as it was,
 * however many hand-overs hang on one another.
 */
const deliveries: (() => void)[] = [];
let isDelivering = false;

/** How many are told before those are dropped. */
const COMPACT_AFTER = 1000;

/** Has a sink told, as soon as no queue is at work. */
export function deliverLater(delivery: () => void): void {
  deliveries.push(delivery);
}

/** Tells whoever is to be told; to be called when a queue's state is final. */
export function deliver(): void {
  if (isDelivering || deliveries.length === 0) return;
  isDelivering = true;
  for (let i = 0; i < deliveries.length; i++) {
    try {
      (deliveries[i] as () => void)();
    } catch (error) {
      // Not the fault of whoever gave the permit back: the host reports it, as it does any error that nobody handles.
      void Promise.reject(error);
    }
    // What has been told is let go of, also when there is always somebody more to tell.
    if (i === COMPACT_AFTER) {
      deliveries.splice(0, i + 1);
      i = -1;
    }
  }
  deliveries.length = 0;
  isDelivering = false;
}
