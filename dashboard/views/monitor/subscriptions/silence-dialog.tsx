import { type ReactNode, useState } from 'react'
import { spanOf } from '../../../kit/text/span.ts'
import { toast } from '../../../kit/toast.tsx'
import { changed } from '../../../live/queries.ts'
import { useClient } from '../../../shell/session.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import type { Venue } from '../place.tsx'
import { Field, FormDialog } from './form-dialog.tsx'
import { MatchForm } from './match-form.tsx'
import { anything, everything, matchOf, type WrittenMatches } from './match-text.ts'

export interface SilencingProps {
  /** Whom it is about at first. @default everything */
  readonly venue?: Venue
  readonly onClose: () => void
}

/** Asks for silence about some venues for a while. */
export function Silencing({ venue, onClose }: SilencingProps): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const [match, setMatch] = useState(venue === undefined ? everything : exactly(venue))
  const [span, setSpan] = useState('')
  const [comment, setComment] = useState('')
  const submit = async () => {
    if (span.trim() === '') throw new Error(say('spanNeeded'))
    await client.monitor.silence({
      ...{ match: matchOf(match, say), forMs: spanOf(span) },
      ...(comment.trim() !== '' && { comment: comment.trim() }),
    })
    toast(say('silencedDone'))
    await changed('monitor', 'audit')
  }
  return (
    <FormDialog title={say('silence')} act={say('silence')} onSubmit={submit} onClose={onClose}>
      <p>{say('silenceMeans')}</p>
      <div className="monitor-fields">
        <Field first label={say('silenceFor')} hint={say('silenceForHint')} value={span} onChange={setSpan} />
        <Field label={say('comment')} value={comment} onChange={setComment} />
      </div>
      <MatchForm value={match} onChange={setMatch} />
    </FormDialog>
  )
}

function exactly({ source, subject, timeSlot, venueId }: Venue): WrittenMatches {
  const is = (value: string | undefined) => (value === undefined ? anything : { how: 'is' as const, value })
  return { source: is(source), subject: is(subject), timeSlot: is(timeSlot), venueId: is(venueId) }
}
