/**
 * A campaign is a check that gets better the longer it runs: a random walk, a fuzz, a series of crashes. The test
 * suite runs a short form of it; `npm run soak` runs the long one. It runs in pieces, each with its seed,
 * so that a failure is replayed alone and an interrupted run can go on from where it was.
 */

/** The length of a campaign. Pieces for a replay, minutes for a soak. */
export type Scale =
  | { readonly kind: 'runs'; readonly runs: number }
  | { readonly kind: 'minutes'; readonly minutes: number }

/** What was done, by what was counted: `{ pieces: 12, operations: 480_000 }`. */
export type Counts = Readonly<Record<string, number>>

export interface CampaignRequest {
  /** The first piece's seed; the next piece has the next number. */
  readonly seed: number
  readonly scale: Scale
  /** Reports the position of the campaign. */
  readonly progress: (detail: string) => void
}

export interface CampaignResult {
  readonly counts: Counts
  /** Lines worth keeping in docs/evidence.md below the table. */
  readonly notes?: readonly string[]
}

export interface Campaign {
  readonly name: string
  readonly module: string
  readonly description: string
  /** Rejects when a promise was found broken: with a CampaignFailure where one seed shows it. */
  run(request: CampaignRequest): Promise<CampaignResult>
}

/** A broken promise, and the seed that shows it again in a single piece. */
export class CampaignFailure extends Error {
  readonly seed: number

  constructor(seed: number, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.name = 'CampaignFailure'
    this.seed = seed
  }
}

/** Runs pieces, seed after seed, until the scale is used up, and adds their counts. There is always one piece. */
export async function inPieces(
  { seed, scale, progress }: CampaignRequest,
  piece: (seed: number) => Counts | Promise<Counts>,
  now: () => number = () => performance.now(),
): Promise<Counts> {
  const startedAt = now()
  const goesOn = (pieces: number): boolean =>
    scale.kind === 'runs' ? pieces < scale.runs : now() - startedAt < scale.minutes * 60_000
  const total: Record<string, number> = { pieces: 0 }
  do {
    const pieceSeed = seed + total.pieces!
    progress(`seed ${pieceSeed}`)
    try {
      for (const [name, count] of Object.entries(await piece(pieceSeed)))
        total[name] = (total[name] ?? 0) + count
    } catch (error) {
      throw new CampaignFailure(pieceSeed, error)
    }
    total.pieces!++
  } while (goesOn(total.pieces!))
  return total
}
