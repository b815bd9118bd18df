import type { Route } from './route.ts'
import { ackJob } from './routes/attempts.ts'
import * as jobs from './routes/jobs.ts'
import { nodeSchema } from './routes/nodes.ts'
import * as queues from './routes/queues.ts'
import * as schedules from './routes/schedules.ts'
import * as tokens from './routes/system.ts'
import { foundTaskSchema, taskSchema } from './routes/tasks.ts'
import { type Schema, Type } from './schema.ts'
import * as terms from './values.ts'

/**
 * The schemas of the routes for OpenAPI. Schemas that several routes share get a name. This file gives only the names;
 * the schemas come from the routes, so each is written once.
 */

/** JSON Schema, as plain data. */
export interface JsonSchema {
  readonly [keyword: string]: unknown
}

/** Named schemas, and references to them. */
export interface Components {
  /** Replaces every shared part of a schema by a reference. */
  show(schema: Schema): JsonSchema
  /** The targets of all references so far, by name. */
  used(): Readonly<Record<string, JsonSchema>>
}

export function createComponents(): Components {
  const nameByText = new Map<string, string>()
  // If two schemas are equal, the first name wins.
  for (const [name, schema] of Object.entries(shared)) {
    const text = JSON.stringify(schema)
    if (!nameByText.has(text)) nameByText.set(text, name)
  }
  const used = new Map<string, JsonSchema>()

  function show(part: unknown): unknown {
    if (Array.isArray(part)) return part.map(show)
    if (typeof part !== 'object' || part === null) return part
    const name = nameByText.get(JSON.stringify(part))
    if (name === undefined) return showFields(part)
    if (!used.has(name)) {
      // Stored before it is filled, so that a recursive schema does not loop for ever.
      used.set(name, {})
      used.set(name, showFields(part) as JsonSchema)
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  const showFields = (part: object): unknown => {
    const words = wordsOf(part)
    if (words !== undefined) return { type: 'string', enum: words }
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, show(value)]))
  }

  return {
    show: (schema) => show(schema) as JsonSchema,
    used: () => Object.fromEntries([...used].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

/** Turns a union of words into an `enum`, which client generators understand better. */
export function wordsOf(part: object): readonly string[] | undefined {
  const { anyOf } = part as { anyOf?: readonly { const?: unknown }[] }
  if (anyOf === undefined || anyOf.length < 2) return undefined
  const words = anyOf.map((option) => option.const)
  return words.every((word) => typeof word === 'string') ? words : undefined
}

interface Parts {
  readonly properties: Readonly<Record<string, Schema & Parts>>
  readonly items: Schema & Parts
  readonly anyOf: readonly (Schema & Parts)[]
}

const partsOf = (schema: Schema | undefined) => schema as Schema & Parts
const itemOf = (page: Route<never>) => partsOf(page.replies[200]).properties.items!.items

const job = partsOf(jobs.jobSchema)

const shared: Readonly<Record<string, Schema>> = {
  Task: taskSchema,
  FoundTask: foundTaskSchema,
  Node: nodeSchema,
  ServiceTerm: terms.serviceTermSchema,
  LabelTerm: terms.labelTermSchema,
  ...terms.nestingTermSchemas,
  Job: job,
  ClaimedJob: itemOf(jobs.claimJobs as Route<never>),
  JobToAdd: partsOf(jobs.addJobs.body).anyOf[0]!,
  JobState: job.properties.state!,
  JobError: job.properties.error!.anyOf[0]!,
  Backoff: job.properties.backoff!,
  Added: partsOf(jobs.addJobs.replies[201]).anyOf[0]!,
  Settled: ackJob.replies[200]!,
  QueueStats: queues.queueStatsSchema,
  Schedule: schedules.getSchedule.replies[200]!,
  Token: itemOf(tokens.listTokens as Route<never>),
  Scope: itemOf(tokens.listTokens as Route<never>).properties.scope!,
}

/** The last event of a stream that ends with an error. */
const error = {
  description: 'The stream ends; the code and message are those of a problem document.',
  data: Type.Object({ code: Type.String(), message: Type.String() }),
}

/** The events of a stream, including `error`; undefined if the route is not a stream. */
export function streamEventsOf({ events }: Route): Route['events'] {
  return events && { ...events, error }
}

/** Whether a stream can resume after an event id. */
export function isResumable({ events }: Route): boolean {
  return 'reset' in (events ?? {})
}
