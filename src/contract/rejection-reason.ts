/**
 * Why a lease was refused; stable names for code, metrics and logs. The text of a refusal meant for people is
 * `MetadataName.reasonPhrase`.
 *
 * - `limit_reached`: no permit was free, and the request was not one that waits.
 * - `queue_full`: it would have waited, but the queue had no place.
 * - `queue_timeout`: it waited as long as it could.
 * - `queue_evicted`: it waited and had to make room for another request.
 * - `deadline_unmet`: the expected wait was longer than the caller can wait.
 * - `deadline_expired`: the caller's deadline had already passed.
 * - `limiter_disposed`: the limiter was disposed while the request waited.
 * - `codel`: shed from a queue that had been standing for too long.
 * - `partition_overflow`: too many partitions, and this key had none.
 * - `share_exceeded`: the request's share of an adaptive limit was used up.
 * - `server_pause`: the limiter is paused, for instance by a server's Retry-After.
 * - `store_unavailable`: the store behind a distributed limiter did not answer.
 * - `priority_shed`, `pressure`, `client_unknown`, `draining`: refusals of the HTTP adapter.
 *
 * @public
 */
export type RejectionReason =
  | "limit_reached"
  | "queue_full"
  | "queue_timeout"
  | "queue_evicted"
  | "deadline_unmet"
  | "deadline_expired"
  | "limiter_disposed"
  | "codel"
  | "partition_overflow"
  | "share_exceeded"
  | "server_pause"
  | "store_unavailable"
  | "priority_shed"
  | "pressure"
  | "client_unknown"
  | "draining";
