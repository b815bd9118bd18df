/** What happened since the dispatcher was made. */
export class Tally {
  submitted = 0
  assigned = 0
  requeued = 0
  completed = 0
  failed = 0
  cancelled = 0
  lost = 0
}
