/**
 * How much the registry has done, in steps of about a microsecond or two: a node joined, a pool looked at, an attempt
 * ended. Whatever could grow with the fleet counts itself here as it is done, so that a turn can be bounded by work
 * and not by how many things it was about.
 */
export class Work {
  done = 0

  /** Counts things that are so small that only many of them are a step. */
  small(count: number): void {
    this.done += count / 8
  }
}
