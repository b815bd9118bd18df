import type {
  FleetWorker,
  FoundFleetWorker,
  ListWorkersOptions,
  NewWorker,
  StopWorkerOptions,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkersPage,
} from '../../../fleet/workers/index.ts'
import { type Route, route } from '../route.ts'
import { object, oneOf, part, queryObject, type Schema, strict, strictObject, Type } from '../schema.ts'
import { count, type IdParams, instant, name, orNull, pageQuery, span } from '../values.ts'

/** Routes of workers: the live workers, their jobs, and the commands of operators. */

const text = Type.String()
const textOrNull = orNull(text)
const wholeOrNull = orNull(Type.Integer())
const wanted = oneOf('run', 'quiet', 'stop')

const workerFields = {
  id: text,
  workerId: text,
  state: oneOf('running', 'quiet', 'stopping', 'gone'),
  wanted,
  via: oneOf('library', 'remote', 'http'),
  host: textOrNull,
  pid: wholeOrNull,
  queues: Type.Array(text),
  kinds: orNull(Type.Array(text)),
  concurrency: wholeOrNull,
  running: Type.Array(Type.Object({ id: text, kind: text, since: instant })),
  runningCount: wholeOrNull,
  release: textOrNull,
  version: textOrNull,
  startedAt: instant,
  seenAt: instant,
  leaseEndsAt: instant,
}
const workerSchema: Schema<FleetWorker> = object(workerFields)

export const listWorkers: Route<{ query: ListWorkersOptions; reply: WorkersPage }> = {
  ...route('jobs', 'listWorkers', 'GET /v1/workers', 'read'),
  summary: 'List the workers of all processes by id: host, queues, kinds, what each runs.',
  description:
    'A worker renews its row at least every 10 seconds. Without a renewal for 30 seconds its `state` is `gone`, and it ' +
    'is listed for another day. A worker that stopped in good order leaves the list at once. `running` has up to 20 ' +
    'jobs, longest first, as of `seenAt`. All instants are of the store’s clock; count ages from `at`.',
  query: queryObject({
    queue: Type.Optional(name),
    kind: Type.Optional(name),
    state: Type.Optional(oneOf('running', 'quiet', 'stopping', 'gone')),
    host: Type.Optional(name),
    release: Type.Optional(name),
    ...pageQuery(2_048),
  }),
  replies: {
    200: object({
      items: Type.Array(part(workerSchema)),
      cursor: textOrNull,
      at: instant,
    }),
  },
}

export const getWorker: Route<{ params: IdParams; reply: FoundFleetWorker }> = {
  ...route('jobs', 'getWorker', 'GET /v1/workers/{id}', 'read'),
  summary: 'Get a worker, with the JSON Schemas of its kinds.',
  replies: {
    200: object({
      ...workerFields,
      schemas: Type.Record(text, Type.Unknown()),
      at: instant,
    }),
  },
  problems: ['not_found'],
}

export const quietWorker: Route<{ params: IdParams; reply: FleetWorker }> = {
  ...route('jobs', 'quietWorker', 'POST /v1/workers/{id}/quiet', 'admin'),
  summary: 'For operators: let a worker finish what it runs and claim nothing more, until it is resumed.',
  description:
    'The worker follows within two seconds, on any machine; on Postgres within ten, if a wake-up is lost. A worker ' +
    'that is known by its claims over HTTP alone gets no more jobs.',
  replies: { 200: workerSchema },
  problems: ['not_found', 'conflict'],
}

export const resumeWorker: Route<{ params: IdParams; reply: FleetWorker }> = {
  ...route('jobs', 'resumeWorker', 'POST /v1/workers/{id}/resume', 'admin'),
  summary: 'For operators: let a quiet worker claim again.',
  description: '`conflict` when the worker is gone, or was asked to stop.',
  replies: { 200: workerSchema },
  problems: ['not_found', 'conflict'],
}

export const stopWorker: Route<{ params: IdParams; body: StopWorkerOptions; reply: FleetWorker }> = {
  ...route('jobs', 'stopWorker', 'POST /v1/workers/{id}/stop', 'admin'),
  summary: 'For operators: stop a worker in good order. Its process goes on.',
  description:
    'It claims nothing more, has `graceMs` for what it runs, and hands back the rest, which burns no attempt. Then it ' +
    'leaves the list.',
  body: strictObject({ graceMs: Type.Optional(span) }),
  bodyOptional: true,
  replies: { 200: workerSchema },
  problems: ['not_found', 'conflict'],
}

const session = Type.String({ minLength: 1, maxLength: 64 })
const refFields = { id: name, session }
const renewalFields = {
  ...refFields,
  mode: oneOf('running', 'quiet', 'stopping'),
  running: Type.Array(Type.Object({ id: name, kind: name, ms: count }, strict), { maxItems: 20 }),
  runningCount: orNull(count),
}

/** A worker that joins. The server adds how the worker is connected. */
type NewWorkerBody = Omit<NewWorker, 'via'>

/** The report of a box on this server about its workers. */
interface ReportWorkersBody {
  readonly join?: readonly NewWorkerBody[] | undefined
  readonly renew?: readonly WorkerRenewal[] | undefined
  readonly ask?: readonly WorkerRef[] | undefined
  readonly leave?: readonly WorkerRef[] | undefined
}

interface WorkersReported {
  /** In the order of the request: whether the worker got its id. */
  readonly joined: readonly boolean[]
  readonly renewed: readonly WorkerStanding[]
  readonly asked: readonly WorkerStanding[]
}

const standings = Type.Array(
  Type.Union([
    Type.Object({ status: Type.Literal('here'), wanted, graceMs: wholeOrNull }),
    Type.Object({ status: Type.Literal('missing') }),
    Type.Object({ status: Type.Literal('taken') }),
  ]),
)
const most = { maxItems: 200 }

export const reportWorkers: Route<{ body: ReportWorkersBody; reply: WorkersReported }> = {
  ...route('jobs', 'reportWorkers', 'POST /v1/workers/report', 'work'),
  summary: 'For boxes on this server: list workers, renew their rows, and learn what operators ask of them.',
  description:
    '`session` is chosen at random by the worker when it starts. A worker renews at least every 10 seconds; a row that ' +
    'is not renewed for 30 seconds is `gone`. A program that only claims needs none of this: it is listed by the ' +
    '`workerId` of its claims.',
  body: strictObject({
    join: Type.Optional(
      Type.Array(
        Type.Object(
          {
            ...renewalFields,
            workerId: name,
            host: orNull(name),
            pid: orNull(count),
            boot: session,
            queues: Type.Array(name, { maxItems: 1_000 }),
            kinds: orNull(Type.Array(name, { maxItems: 10_000 })),
            schemas: Type.Record(text, Type.Unknown()),
            concurrency: orNull(count),
            release: orNull(name),
            version: orNull(Type.String({ maxLength: 64 })),
            ageMs: count,
          },
          strict,
        ),
        most,
      ),
    ),
    renew: Type.Optional(Type.Array(Type.Object(renewalFields, strict), most)),
    ask: Type.Optional(Type.Array(Type.Object(refFields, strict), most)),
    leave: Type.Optional(Type.Array(Type.Object(refFields, strict), most)),
  }),
  replies: {
    200: object({
      joined: Type.Array(Type.Boolean()),
      renewed: standings,
      asked: standings,
    }),
  },
  relieves: true,
  limits: { maxBytes: 16 * 1_048_576, maxKeys: 200_000 },
}
