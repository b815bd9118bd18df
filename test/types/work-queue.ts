/** The surface of `signalbox/workqueue`, exactly as its contract declares it; `tsc` is the test. */
import type * as room from 'signalbox/workqueue'
import {
  type AddAfterOptions,
  type AddOptions,
  BucketRateLimiter,
  type Clock,
  DelayingQueue,
  type DelayingQueueOptions,
  defaultControllerRateLimiter,
  defaultItemBasedRateLimiter,
  type Entry,
  FairQueue,
  FifoQueue,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  MaxOfRateLimiter,
  type Metrics,
  type NoWork,
  parallelizeUntil,
  type Queue,
  type QueueOptions,
  type QueueStats,
  type RateLimiter,
  RateLimitingQueue,
  type RateLimitingQueueOptions,
  type RunOptions,
  type SignalOptions,
  systemClock,
  WithMaxWaitRateLimiter,
  type Work,
  WorkQueue,
} from 'signalbox/workqueue'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Expect<T extends true> = T
/** The plain shape of an interface, inherited members included. */
type Shape<T> = { [K in keyof T]: T[K] }
interface Pod {
  readonly namespace: string
  readonly name: string
}

/** The values of the module: these names and no others. */
export type Names = Expect<
  Equal<
    keyof typeof room,
    | 'systemClock'
    | 'WorkQueue'
    | 'DelayingQueue'
    | 'RateLimitingQueue'
    | 'FifoQueue'
    | 'FairQueue'
    | 'ItemExponentialFailureRateLimiter'
    | 'ItemFastSlowRateLimiter'
    | 'BucketRateLimiter'
    | 'MaxOfRateLimiter'
    | 'WithMaxWaitRateLimiter'
    | 'defaultControllerRateLimiter'
    | 'defaultItemBasedRateLimiter'
    | 'parallelizeUntil'
  >
>

// ------------------------------------------------------------------ clock
export type ClockShape = Expect<
  Equal<
    Shape<Clock>,
    {
      now(): number
      setTimeout(callback: () => void, ms: number): unknown
      clearTimeout(handle: unknown): void
    }
  >
>
export type SystemClock = Expect<Equal<typeof systemClock, Clock>>

// ------------------------------------------------------------------ plain queue
type PlainMembers =
  | 'add'
  | 'get'
  | 'tryGet'
  | 'done'
  | 'size'
  | 'processing'
  | 'waiting'
  | 'shuttingDown'
  | 'shutDown'
  | 'shutDownWithDrain'
  | 'run'
  | 'onIdle'
  | 'onSizeLessThan'
  | 'stats'
  | typeof Symbol.dispose
  | typeof Symbol.asyncDispose
  | typeof Symbol.asyncIterator
type Of<K extends keyof WorkQueue<Pod>> = WorkQueue<Pod>[K]
export type Plain = [
  Expect<Equal<keyof WorkQueue<Pod>, PlainMembers>>,
  Expect<Equal<ConstructorParameters<typeof WorkQueue<Pod>>, [options?: QueueOptions<Pod> | undefined]>>,
  Expect<Equal<Of<'add'>, (item: Pod, options?: AddOptions) => boolean>>,
  Expect<Equal<Of<'get'>, (options?: SignalOptions) => Promise<Work<Pod> | NoWork>>>,
  Expect<Equal<Of<'tryGet'>, () => Work<Pod> | NoWork | undefined>>,
  Expect<Equal<Of<'done'>, (item: Pod) => boolean>>,
  Expect<Equal<Of<'shutDown'>, () => void>>,
  Expect<Equal<Of<'shutDownWithDrain'>, (options?: SignalOptions) => Promise<void>>>,
  Expect<Equal<Of<typeof Symbol.dispose>, () => void>>,
  Expect<Equal<Of<typeof Symbol.asyncDispose>, () => Promise<void>>>,
  Expect<Equal<Of<typeof Symbol.asyncIterator>, () => AsyncIterableIterator<Pod>>>,
  Expect<Equal<Of<'run'>, (handler: (item: Pod) => unknown, options?: RunOptions<Pod>) => Promise<void>>>,
  Expect<Equal<Of<'onIdle'>, (options?: SignalOptions) => Promise<void>>>,
  Expect<Equal<Of<'onSizeLessThan'>, (limit: number, options?: SignalOptions) => Promise<void>>>,
  Expect<Equal<Of<'stats'>, () => QueueStats>>,
  Expect<
    Equal<
      Pick<WorkQueue<Pod>, 'size' | 'processing' | 'waiting' | 'shuttingDown'>,
      {
        readonly size: number
        readonly processing: number
        readonly waiting: number
        readonly shuttingDown: boolean
      }
    >
  >,
]

/**
 * Options and metrics are read, never written, and given by the caller: that they are `readonly` and take an
 * explicit `undefined` (house style under exactOptionalPropertyTypes) is no part of the comparison.
 */
type Loose<T> = { -readonly [K in keyof T]: Exclude<T[K], undefined> }
export type PlainOptions = [
  Expect<
    Equal<
      Loose<QueueOptions<Pod>>,
      { name?: string; key?: (item: Pod) => unknown; queue?: Queue<Pod>; clock?: Clock; metrics?: Metrics }
    >
  >,
  Expect<Equal<Loose<SignalOptions>, { signal?: AbortSignal }>>,
  Expect<Equal<Loose<AddOptions>, { priority?: number }>>,
  Expect<
    Equal<
      Loose<RunOptions<Pod>>,
      {
        concurrency?: number
        signal?: AbortSignal
        onError?: (error: unknown, item: Pod) => void
        maxRetries?: number
      }
    >
  >,
]
export type Works = [
  Expect<
    Equal<
      Shape<Work<Pod>>,
      { readonly shutdown: false; readonly item: Pod; readonly priority: number; [Symbol.dispose](): void }
    >
  >,
  Expect<
    Equal<Shape<NoWork>, { readonly shutdown: true; readonly item: undefined; [Symbol.dispose](): void }>
  >,
]

// ------------------------------------------------------------------ delaying queue
export type Delaying = [
  Expect<Equal<keyof DelayingQueue<Pod>, PlainMembers | 'addAfter' | 'cancelAfter' | 'readyAt'>>,
  Expect<
    Equal<ConstructorParameters<typeof DelayingQueue<Pod>>, [options?: DelayingQueueOptions<Pod> | undefined]>
  >,
  Expect<
    Equal<DelayingQueue<Pod>['addAfter'], (item: Pod, ms: number, options?: AddAfterOptions) => boolean>
  >,
  Expect<Equal<DelayingQueue<Pod>['cancelAfter'], (item: Pod) => boolean>>,
  Expect<Equal<DelayingQueue<Pod>['readyAt'], (item: Pod) => number | undefined>>,
  Expect<Equal<Loose<AddAfterOptions>, { priority?: number; replace?: boolean }>>,
  Expect<
    Equal<
      Loose<DelayingQueueOptions<Pod>>,
      {
        coalesce?: boolean
        unref?: boolean
        name?: string
        key?: (item: Pod) => unknown
        queue?: Queue<Pod>
        clock?: Clock
        metrics?: Metrics
      }
    >
  >,
]

// ------------------------------------------------------------------ rate limiting queue
type LimitingMembers = 'rateLimiter' | 'addRateLimited' | 'forget' | 'numRequeues'
export type Limiting = [
  Expect<Equal<keyof RateLimitingQueue<Pod>, keyof DelayingQueue<Pod> | LimitingMembers>>,
  Expect<
    Equal<
      ConstructorParameters<typeof RateLimitingQueue<Pod>>,
      [options?: RateLimitingQueueOptions<Pod> | undefined]
    >
  >,
  Expect<Equal<Pick<RateLimitingQueue<Pod>, 'rateLimiter'>, { readonly rateLimiter: RateLimiter<Pod> }>>,
  Expect<Equal<RateLimitingQueue<Pod>['addRateLimited'], (item: Pod, options?: AddOptions) => boolean>>,
  Expect<Equal<RateLimitingQueue<Pod>['forget'], (item: Pod) => void>>,
  Expect<Equal<RateLimitingQueue<Pod>['numRequeues'], (item: Pod) => number>>,
  Expect<
    Equal<
      Loose<Pick<RateLimitingQueueOptions<Pod>, 'rateLimiter' | 'coalesce'>>,
      { rateLimiter?: RateLimiter<Pod>; coalesce?: boolean }
    >
  >,
]

// ------------------------------------------------------------------ stores
export type Stores = [
  Expect<Equal<Shape<Entry<Pod>>, { readonly item: Pod; readonly priority: number }>>,
  Expect<
    Equal<
      Shape<Queue<Pod>>,
      {
        push(entry: Entry<Pod>): void
        touch(entry: Entry<Pod>, previousPriority: number): void
        pop(): Entry<Pod>
        readonly size: number
      }
    >
  >,
  Expect<Equal<keyof FifoQueue<Pod>, keyof Queue<Pod>>>,
  Expect<Equal<keyof FairQueue<Pod>, keyof Queue<Pod>>>,
  Expect<Equal<ConstructorParameters<typeof FifoQueue<Pod>>, []>>,
  Expect<Equal<ConstructorParameters<typeof FairQueue<Pod>>, [groupOf: (item: Pod) => unknown]>>,
]

// ------------------------------------------------------------------ rate limiters
export type Limiters = [
  Expect<
    Equal<
      Shape<RateLimiter<Pod>>,
      {
        when(item: Pod, key?: unknown): number
        forget(item: Pod, key?: unknown): void
        numRequeues(item: Pod, key?: unknown): number
      }
    >
  >,
  Expect<Equal<keyof ItemExponentialFailureRateLimiter<Pod>, keyof RateLimiter<Pod>>>,
  Expect<Equal<keyof ItemFastSlowRateLimiter<Pod>, keyof RateLimiter<Pod>>>,
  Expect<Equal<keyof BucketRateLimiter<Pod>, keyof RateLimiter<Pod>>>,
  Expect<Equal<keyof MaxOfRateLimiter<Pod>, keyof RateLimiter<Pod>>>,
  Expect<Equal<keyof WithMaxWaitRateLimiter<Pod>, keyof RateLimiter<Pod>>>,
  Expect<Equal<ConstructorParameters<typeof MaxOfRateLimiter<Pod>>, RateLimiter<Pod>[]>>,
  Expect<
    Equal<
      ConstructorParameters<typeof WithMaxWaitRateLimiter<Pod>>,
      [limiter: RateLimiter<Pod>, maxDelay: number]
    >
  >,
  Expect<Equal<typeof defaultControllerRateLimiter<Pod>, (clock?: Clock) => RateLimiter<Pod>>>,
  Expect<Equal<typeof defaultItemBasedRateLimiter<Pod>, () => RateLimiter<Pod>>>,
]

// ------------------------------------------------------------------ metrics
export type Measures = [
  Expect<
    Equal<
      Loose<Metrics>,
      {
        depth?: { inc(): void; dec(): void }
        adds?: { inc(): void }
        retries?: { inc(): void }
        latency?: { observe(seconds: number): void }
        workDuration?: { observe(seconds: number): void }
      }
    >
  >,
  Expect<
    Equal<
      Shape<QueueStats>,
      {
        name: string
        depth: number
        size: number
        processing: number
        waiting: number
        adds: number
        retries: number
        unfinishedWorkSeconds?: number
        longestRunningProcessorSeconds?: number
      }
    >
  >,
]

// ------------------------------------------------------------------ in use
const queue: RateLimitingQueue<Pod> = new RateLimitingQueue<Pod>({ key: (pod) => pod.name })

/** client-go's loop, word for word: `shutdown` narrows `item`. */
export async function loop(reconcile: (pod: Pod) => Promise<void>): Promise<void> {
  for (;;) {
    const { item, shutdown } = await queue.get()
    if (shutdown) return
    try {
      await reconcile(item)
      queue.forget(item)
    } catch {
      queue.addRateLimited(item)
    } finally {
      queue.done(item)
    }
  }
}

/** The other ways to consume, as the contract shows them. */
export async function others(reconcile: (pod: Pod) => Promise<void>, signal: AbortSignal): Promise<void> {
  for await (const item of queue) await reconcile(item)
  using work = await queue.get()
  if (!work.shutdown) await reconcile(work.item)
  await using scope = queue
  await scope.run(reconcile, {
    concurrency: 8,
    signal,
    maxRetries: 15,
    onError: (_error, pod) => void pod.name,
  })
  new WorkQueue<Pod>({
    key: (pod) => `${pod.namespace}/${pod.name}`,
    queue: new FairQueue((pod: Pod) => pod.namespace),
  })
  const plain: WorkQueue<Pod> = queue
  const delaying: DelayingQueue<Pod> = queue
  const parts: [AsyncIterable<Pod>, AsyncDisposable, Disposable] = [plain, delaying, plain]
  const limiters: RateLimiter<Pod>[] = [
    new ItemExponentialFailureRateLimiter<Pod>(5, 1_000, { jitter: 0.1, random: Math.random, maxItems: 10 }),
    new ItemFastSlowRateLimiter<Pod>(5, 1_000, 3, { maxItems: 10 }),
    new BucketRateLimiter<Pod>(10, 100, { clock: systemClock }),
    new MaxOfRateLimiter<Pod>(defaultControllerRateLimiter(), defaultItemBasedRateLimiter()),
    new WithMaxWaitRateLimiter<Pod>(defaultControllerRateLimiter<Pod>(systemClock), 1_000),
  ]
  const stores: Queue<Pod>[] = [new FifoQueue<Pod>(), new FairQueue<Pod>(({ namespace }) => namespace)]
  await parallelizeUntil(
    2,
    parts.length + limiters.length + stores.length,
    async (piece) => piece.toFixed(),
    {
      chunkSize: 2,
      signal,
    },
  )
}

/** What prom-client's children look like: more parameters than are used, and `this` returned. */
export const children: Metrics = {
  depth: { inc: (_value?: number) => {}, dec: (_value?: number) => {} },
  adds: { inc: (_value?: number) => {} },
  latency: { observe: (_value: number) => {} },
}

/** What must not compile. */
export function refused(): void {
  // @ts-expect-error: an item of another type
  queue.add('pod')
  // @ts-expect-error: the counts are read only
  queue.size = 3
  // @ts-expect-error: the limiter is read only
  queue.rateLimiter = defaultControllerRateLimiter<Pod>()
  // @ts-expect-error: a plain queue has no delays
  new WorkQueue<Pod>().addAfter({ namespace: 'a', name: 'b' }, 5)
  // @ts-expect-error: a delaying queue has no limiter
  new DelayingQueue<Pod>().addRateLimited({ namespace: 'a', name: 'b' })
  // @ts-expect-error: a delay is needed
  queue.addAfter({ namespace: 'a', name: 'b' })
  // @ts-expect-error: add does not replace
  queue.add({ namespace: 'a', name: 'b' }, { replace: true })
  // @ts-expect-error: a fair queue needs its groups
  new FairQueue<Pod>()
  // @ts-expect-error: the item may be undefined until shutdown was looked at
  queue.get().then(({ item }) => item.name)
  // @ts-expect-error: coalesce is of delaying queues
  new WorkQueue<Pod>({ coalesce: true })
}
