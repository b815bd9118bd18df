import { catalogue } from './catalogue.ts'

export const onceWords = catalogue({
  lead: {
    en: 'Keys that were claimed so that something happens once: who is at it, what is done, what is stuck.',
    zh: '为确保只执行一次而占用的键：正在执行、已完成或卡住。',
  },
  guards: { en: 'Guards', zh: '守卫' },
  key: { en: 'Key', zh: '键' },
  status: { en: 'Status', zh: '状态' },
  attempt: { en: 'Attempt', zh: '尝试' },
  mode: { en: 'Mode', zh: '模式' },
  claimed: { en: 'Claimed', zh: '占用时间' },
  ends: { en: 'Ends', zh: '结束' },
  leaseEnds: { en: 'lease ends', zh: '租约到期' },
  forgottenAt: { en: 'forgotten', zh: '自动清除' },
  untilForgotten: { en: 'until it is forgotten', zh: '需手动清除' },

  running: { en: 'running', zh: '执行中' },
  done: { en: 'done', zh: '已完成' },
  failed: { en: 'failed', zh: '失败' },
  stuck: { en: 'stuck', zh: '卡住' },
  runningMeans: { en: 'A caller runs it; other callers get this answer.', zh: '正在执行；其他请求会得知。' },
  doneMeans: { en: 'Whoever claims it now gets the kept result.', zh: '再次占用会得到已保存的结果。' },
  failedMeans: {
    en: 'It was not done: the next claim runs it again.',
    zh: '未完成：下一次占用会重新执行。',
  },
  stuckMeans: {
    en: 'Its claim ran out and nobody said how it ended. Find out whether it happened, then forget the key.',
    zh: '占用已到期，但没有人说明结果。请先确认是否已执行，再清除该键。',
  },
  'at-least-once': { en: 'at least once', zh: '至少一次' },
  'at-most-once': { en: 'at most once', zh: '至多一次' },

  space: { en: 'Kind', zh: '种类' },
  spaceOnce: { en: 'Once', zh: '一次性' },
  spaceProcessing: { en: 'Processing', zh: '处理中任务' },
  anyStatus: { en: 'Any status', zh: '全部状态' },
  search: { en: 'Part of a key', zh: '键中包含' },
  clear: { en: 'Clear filters', zh: '清除筛选' },
  onPage: {
    en: { one: '{count} guard on this page', other: '{count} guards on this page' },
    zh: '本页 {count} 个',
  },
  ofPage: {
    en: '{count} of the {all} guards that were looked through',
    zh: '已查看 {all} 个，符合 {count} 个',
  },
  none: { en: 'No guards yet', zh: '还没有守卫' },
  noneNext: {
    en: 'A guard is there as soon as a key is claimed:',
    zh: '占用键之后，守卫即会出现：',
  },
  noneProcessing: { en: 'Nothing is being processed', zh: '当前没有处理中的任务' },
  noneProcessingNext: {
    en: 'Tasks show here while they are in hand, and leave when they end:',
    zh: '任务在处理期间显示，结束后消失：',
  },
  noMatch: { en: 'No guard matches these filters', zh: '没有符合条件的守卫' },
  noMatchNext: { en: 'Look at the next page, or change the filters.', zh: '请查看下一页，或修改筛选条件。' },

  counts: { en: 'Since this server started', zh: '自服务器启动以来' },
  unique_events: { en: 'New keys', zh: '新键' },
  unique_eventsMeans: { en: 'Claims of keys that nobody had claimed before.', zh: '首次占用的键。' },
  duplicate_events: { en: 'Repeats held back', zh: '拦下的重复' },
  duplicate_eventsMeans: {
    en: 'Claims of keys that were running, done or stuck.',
    zh: '占用时键已在执行、已完成或卡住。',
  },
  lock_acquired_count: { en: 'Tasks taken', zh: '领取的任务' },
  lock_acquired_countMeans: { en: 'Tasks that were taken in hand.', zh: '成功领取处理的任务。' },
  lock_rejected_count: { en: 'Tasks refused', zh: '拒绝的任务' },
  lock_rejected_countMeans: {
    en: 'Tasks that somebody else had in hand.',
    zh: '已有他人在处理的任务。',
  },
  notification_dedup: { en: 'Repeats not notified', zh: '未通知的重复' },
  notification_dedupMeans: {
    en: 'States that were notified already within their window.',
    zh: '时间窗口内已通知过的状态。',
  },
  degraded: { en: 'Degraded answers', zh: '降级应答' },
  degradedMeans: {
    en: 'The store did not answer, and the declared policy spoke in its place.',
    zh: '存储没有响应，由预设策略应答。',
  },

  forget: { en: 'Forget', zh: '清除' },
  selectFirst: { en: 'Select guards first', zh: '请先选择守卫' },
  forgetSome: {
    en: { one: 'Forget {count} key?', other: 'Forget {count} keys?' },
    zh: '清除 {count} 个键？',
  },
  forgetMeans: {
    en: 'Whoever claims it next runs it anew, also when it was done or somebody is still at it. Kept results are lost.',
    zh: '下一次占用将重新执行，即使已完成或仍有人在执行。已保存的结果会丢失。',
  },
  forgotSome: {
    en: { one: '{count} key was forgotten', other: '{count} keys were forgotten' },
    zh: '已清除 {count} 个键',
  },
})
