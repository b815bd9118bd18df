import type { TLiteral, TUnion } from 'typebox'
import { Type } from './schema.ts'

/** The states of a job. */
export const jobState: TUnion<
  [
    TLiteral<'scheduled'>,
    TLiteral<'ready'>,
    TLiteral<'waiting'>,
    TLiteral<'running'>,
    TLiteral<'completed'>,
    TLiteral<'dead'>,
    TLiteral<'cancelled'>,
  ]
> = Type.Union([
  Type.Literal('scheduled'),
  Type.Literal('ready'),
  Type.Literal('waiting'),
  Type.Literal('running'),
  Type.Literal('completed'),
  Type.Literal('dead'),
  Type.Literal('cancelled'),
])
