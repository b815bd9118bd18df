/** How the registry decides, as data: whole numbers and fractions, the same for every server of a fleet. */

/** The registry's settings. */
export interface RegistryPolicy {
  /** Where the registry's own dice begin: the same seed and commands give the same effects. @default 1 */
  readonly seed: number
  /** A node must accept a task in this time, or the attempt is over. 0: no bound. @default 10_000 */
  readonly acceptMs: number
  /** After a cancel, how long a slot waits for the node's word before it is taken as free. @default 30_000 */
  readonly cancelGraceMs: number
  /** How long a service rests on a node that said it is busy without saying for how long. @default 1_000 */
  readonly restMs: number
  /** The wait before the second attempt after a failure, doubled for each further one. @default 500 */
  readonly retryInMs: number
  /** So many times a node may say busy before the attempt counts as failed. @default 100 */
  readonly maxRejects: number
  /** A waiting task rises by one priority in this time. @default 10_000 */
  readonly ageMs: number
  /** A task that fits nowhere, and has waited this long, has a node kept free for it. @default 5_000 */
  readonly holdAfterMs: number
  /** More waiting tasks than this are refused. @default 10_000 */
  readonly maxWaiting: number
  /** The same for one tenant. @default 10_000 */
  readonly maxWaitingPerTenant: number
  /** How long a session is remembered after its last task. @default 1_800_000 */
  readonly sessionMs: number
  /** @default 100_000 */
  readonly maxSessions: number
  /** A session leaves its node when that is more loaded than the best one by more than so many 32nds. @default 4 */
  readonly escapeBuckets: number
  /** A preferred node is taken until it is more loaded than the best one by so many 32nds. @default 4 */
  readonly preferBuckets: number
  /** What the score is made of: taken slots against reported load, and the parts of that. */
  readonly weights: {
    readonly used: number
    readonly cpu: number
    readonly gpu: number
    readonly memory: number
  }
  /** A node that reports this much gets no new work; above 1: never. @default cpu 2, gpu 2, memory 0.98 */
  readonly veto: { readonly cpu: number; readonly gpu: number; readonly memory: number }
  /** Pools looked at per choice; the others have their turn at the next. @default 64 */
  readonly maxPoolsScanned: number
  /** Requirements remembered while nothing waits with them. @default 512 */
  readonly maxDemands: number
  /** Steps of a slice, as `Work` counts them: nodes joined, pools matched, attempts ended. @default 64 */
  readonly sliceSteps: number
  /** Changed snapshot pages are published this often; of many, one in a twentieth of it. @default 100 */
  readonly publishMs: number
  /** How long a dead node, and a task handed back, is remembered. @default 600_000 */
  readonly keepMs: number
}

export const registryDefaults: RegistryPolicy = {
  seed: 1,
  acceptMs: 10_000,
  cancelGraceMs: 30_000,
  restMs: 1_000,
  retryInMs: 500,
  maxRejects: 100,
  ageMs: 10_000,
  holdAfterMs: 5_000,
  maxWaiting: 10_000,
  maxWaitingPerTenant: 10_000,
  sessionMs: 1_800_000,
  maxSessions: 100_000,
  escapeBuckets: 4,
  preferBuckets: 4,
  weights: { used: 0.6, cpu: 1, gpu: 1, memory: 0.5 },
  veto: { cpu: 2, gpu: 2, memory: 0.98 },
  maxPoolsScanned: 64,
  maxDemands: 512,
  sliceSteps: 64,
  publishMs: 100,
  keepMs: 600_000,
}
