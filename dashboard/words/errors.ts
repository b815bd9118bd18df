import { catalogue } from './catalogue.ts'

export const errorsWords = catalogue({
  lead: {
    en: 'Failed and lost attempts. A group has one kind, error, message without ids, and first stack frame of your code.',
    zh: '失败和丢失的尝试。类型、错误、去除 ID 的消息以及您代码的首个堆栈帧相同的归为一组。',
  },
  allGroups: { en: 'All errors', zh: '全部错误' },
  error: { en: 'Error', zh: '错误' },
  noName: { en: 'Error', zh: '错误' },
  kind: { en: 'Kind', zh: '类型' },
  anyKind: { en: 'Any kind', zh: '全部类型' },
  attempts: { en: 'Attempts', zh: '尝试次数' },
  firstSeen: { en: 'First seen', zh: '首次出现' },
  lastSeen: { en: 'Last seen', zh: '最近出现' },
  releases: { en: 'Releases', zh: '版本' },
  code: { en: 'Code', zh: '代码' },
  fingerprint: { en: 'Fingerprint', zh: '指纹' },
  stack: { en: 'Stack', zh: '堆栈' },
  counting: { en: 'The newest attempts are being counted.', zh: '正在统计最新的尝试。' },
  clear: { en: 'Clear filters', zh: '清除筛选' },
  none: { en: 'No errors', zh: '没有错误' },
  noneNext: {
    en: 'A group appears when an attempt of a job fails or is lost.',
    zh: '作业的某次尝试失败或丢失后，分组即会出现。',
  },
  noMatch: { en: 'No errors of this kind', zh: '此类型没有错误' },
  noMatchNext: { en: 'Change or clear the filter.', zh: '请修改或清除筛选条件。' },
  missing: { en: 'No such error group', zh: '没有这个错误分组' },
  missingNext: {
    en: 'It was pruned, or it never existed. Check the address.',
    zh: '它已被清理，或从未存在。请检查地址。',
  },

  jobs: { en: 'Jobs with this last error', zh: '最近错误属于此分组的作业' },
  allJobs: { en: 'All these jobs', zh: '查看全部' },
  noJobs: { en: 'No job has this as its last error.', zh: '没有作业的最近错误属于此分组。' },
  samples: { en: 'Samples', zh: '示例' },

  canary: { en: 'Retry {count} first', zh: '先重试 {count} 个' },
  canaryAct: { en: 'Retry', zh: '重试' },
  canaryAsk: {
    en: 'Retry up to {count} dead jobs of this group?',
    zh: '重试此分组中最多 {count} 个死信作业？',
  },
  canaryMeans: {
    en: 'They show whether the cause is gone. Retry the rest after they complete.',
    zh: '借此确认问题是否已解决。它们完成后，再重试其余的作业。',
  },
  canaryBegun: { en: 'The retry has begun.', zh: '已开始重试。' },
  retryGroup: { en: 'Retry the group', zh: '重试整个分组' },
})
